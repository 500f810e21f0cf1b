"""One Conductor as the container takes it: three ports over one client, one endpoint a question.

Terminal updates use `POST /tasks`: the newer update-v2 hands out another task in its answer. What
follows from a row is not known here. A wrong address is named by `TaskQueue.check`.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TypeVar, final

from perago.adapters.conductor import mapping
from perago.adapters.conductor.client import (
    ApiClient,
    ApiRequest,
    ConductorClient,
    ConductorSettings,
    Method,
    NotConductorError,
    path_of,
)
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus, WorkflowSnapshot
from perago.ports import conductor, errors
from perago.ports.installations import ConductorInstallation, Server, ServerFacts

# One page: who asks looks for rows of the last seconds, and the newest come first. All rows in
# progress of a task type count, of every worker. One beyond 500 waits for its response time-out.
ROWS_FOUND_MAX = 500
# A poll may take as long as the server was asked to wait, and then as long as any other request
# (`request_timeout_seconds` in `client`).
POLL_ANSWER_SECONDS = 15.0
VERSION = re.compile(r"v?\d+\.\d+\S*")
NOT_PAUSED = "is not PAUSED so cannot resume"
Value = TypeVar("Value")


def open_conductor(settings: ConductorSettings) -> ConductorInstallation:
    """The ports of one Conductor; nothing is asked of it yet."""
    client = ConductorClient(settings)
    return ConductorInstallation(
        queue=ConductorTaskQueue(client),
        definitions=ConductorTaskDefinitions(client),
        workflows=ConductorWorkflows(client),
        server=ConductorServer(client),
        close=client.close,
    )


class _OverApi:
    """Asks one Conductor."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._call = client.call

    async def _found(self, request: ApiRequest, meaning: Callable[[object], Value]) -> Value | None:
        """What is there, in our terms; None when Conductor has no such thing."""
        try:
            answer = await self._call(request)
        except errors.MissingError:
            return None
        return meaning(answer)


@final
class ConductorTaskQueue(_OverApi, conductor.TaskQueue):
    """Polls, reads and updates task rows."""

    async def poll(self, request: conductor.PollRequest) -> tuple[AttemptRecord, ...]:
        purpose = f"poll {request.task_type}"
        path = path_of("tasks", "poll", "batch", request.task_type)
        query = {
            "workerid": request.worker_id,
            "domain": request.domain,
            "count": request.count,
            "timeout": request.wait_ms,
        }
        seconds = request.wait_ms / 1000 + POLL_ANSWER_SECONDS
        poll = ApiRequest(purpose, "GET", path, query, timeout_seconds=seconds, is_poll=True)
        rows = mapping.json_list(await self._call(poll), "polled tasks")
        return tuple(mapping.attempt_record(row) for row in rows)

    async def read_attempt(self, workflow_id: str, task_id: str) -> AttemptRecord | None:
        purpose = f"read task {task_id} of workflow {workflow_id}"
        request = ApiRequest(purpose, "GET", path_of("tasks", task_id))
        return await self._found(request, mapping.attempt_record)

    async def read_workflow(self, workflow_id: str) -> WorkflowSnapshot | None:
        return await self._found(_workflow(workflow_id), mapping.workflow_snapshot)

    async def in_progress(self, task_type: str) -> tuple[AttemptRecord, ...]:
        purpose = f"find the rows in progress of {task_type}"
        query: dict[str, str | int] = {
            "query": f"taskType IN ({task_type}) AND status IN ({AttemptStatus.IN_PROGRESS})",
            "freeText": "*",
            "sort": "startTime:DESC",
            "size": ROWS_FOUND_MAX,
        }
        answer = await self._call(ApiRequest(purpose, "GET", "/tasks/search-v2", query))
        found = mapping.json_list(mapping.json_object(answer, purpose).get("results"), "tasks")
        rows = [mapping.attempt_record(row) for row in found]
        # The index may be late, and the rows are read when they are answered.
        return tuple(row for row in rows if row.snapshot.status is AttemptStatus.IN_PROGRESS)

    async def last_polls(self, task_type: str) -> tuple[conductor.LastPoll, ...]:
        purpose = f"ask who polls {task_type}"
        request = ApiRequest(purpose, "GET", "/tasks/queue/polldata", {"taskType": task_type})
        polls = mapping.json_list(await self._call(request), "polls")
        return tuple(mapping.last_poll(each) for each in polls)

    async def waiting(self, task_type: str) -> Mapping[str | None, int]:
        # The endpoint for one type counts its queue without a domain only.
        purpose = f"ask how many rows of {task_type} wait"
        answer = await self._call(ApiRequest(purpose, "GET", "/tasks/queue/all"))
        return mapping.waiting_rows(answer, task_type)

    async def extend_lease(self, attempt: AttemptSnapshot, worker_id: str) -> None:
        purpose = f"extend the lease of task {attempt.task_id}"
        body = mapping.heartbeat_body(attempt, worker_id)
        await self._call(ApiRequest(purpose, "POST", "/tasks", body=body))

    async def complete(self, update: conductor.TerminalUpdate, *, timeout_seconds: float) -> None:
        purpose = f"send {update.status} for task {update.attempt.task_id}"
        body, seconds = mapping.terminal_body(update), timeout_seconds
        await self._call(ApiRequest(purpose, "POST", "/tasks", body=body, timeout_seconds=seconds))

    async def hand_back(self, given: conductor.HandBack, *, timeout_seconds: float) -> None:
        purpose = f"hand back task {given.attempt.task_id}"
        body, seconds = mapping.hand_back_body(given), timeout_seconds
        await self._call(ApiRequest(purpose, "POST", "/tasks", body=body, timeout_seconds=seconds))

    async def log(self, task_id: str, line: str) -> None:
        path = path_of("tasks", task_id, "log")
        await self._call(ApiRequest(f"log to task {task_id}", "POST", path, text=line))

    async def read_log(self, task_id: str) -> tuple[str, ...]:
        path = path_of("tasks", task_id, "log")
        answer = await self._call(ApiRequest(f"read the log of task {task_id}", "GET", path))
        entries = mapping.json_list(answer, "log lines")
        return tuple(str(mapping.json_object(one, "a log line").get("log", "")) for one in entries)

    async def check(self) -> str:
        version = await self._version("/version")
        if version is not None:
            return version
        below = await self._version("/api/version")
        remedy = (
            f"the API answers at {self._client.address}/api: use that address"
            if below is not None
            else "the address must be the one of Conductor's API, such as http://host:8080/api"
        )
        raise errors.WrongServerError(
            f"no Conductor at {self._client.address}: /version answers something else than "
            f"a version like 3.x; {remedy}"
        )

    async def _version(self, path: str) -> str | None:
        """What answers there if it is a version; only a missing answer is an error."""
        try:
            version = str(await self._call(ApiRequest("ask for the version", "GET", path)))
        except (errors.MissingError, NotConductorError):
            return None
        return version if VERSION.fullmatch(version) else None


@final
class ConductorTaskDefinitions(_OverApi, conductor.TaskDefinitions):
    """Task definitions in Conductor's own JSON, untouched in both directions."""

    async def read(self, name: str) -> Mapping[str, object] | None:
        path = path_of("metadata", "taskdefs", name)
        request = ApiRequest(f"read task definition {name}", "GET", path)
        return await self._found(request, partial(mapping.json_object, what="a task definition"))

    async def put(self, definition: Mapping[str, object]) -> None:
        purpose = f"register task definition {definition.get('name')}"
        body = [mapping.plain_json(definition, "definition")]
        # POST takes a list and replaces; PUT refuses a name that is new.
        await self._call(ApiRequest(purpose, "POST", "/metadata/taskdefs", body=body))


@final
class ConductorWorkflows(_OverApi, conductor.Workflows):
    """Defines, starts, ends, repeats and reads workflows."""

    async def put_definition(self, definition: Mapping[str, object]) -> None:
        purpose = f"register workflow definition {definition.get('name')}"
        body = [mapping.plain_json(definition, "definition")]
        answer = await self._call(ApiRequest(purpose, "PUT", "/metadata/workflow", body=body))
        # A refused definition is answered with 200 and stands among the errors.
        result = mapping.json_object(answer or {}, "the result of a registration")
        if refused := result.get("bulkErrorResults"):
            raise errors.RequestRefusedError(f"{purpose} at {self._client.address}: {refused}")

    async def read_definition(self, name: str) -> Mapping[str, object] | None:
        path = path_of("metadata", "workflow", name)
        request = ApiRequest(f"read workflow definition {name}", "GET", path)
        return await self._found(request, partial(mapping.json_object, what="a definition"))

    async def list_definitions(self) -> tuple[Mapping[str, object], ...]:
        purpose, path = "list the workflow definitions", "/metadata/workflow/latest-versions"
        found = mapping.json_list(await self._call(ApiRequest(purpose, "GET", path)), purpose)
        return tuple(mapping.json_object(each, "a definition") for each in found)

    async def start(
        self,
        name: str,
        workflow_input: Mapping[str, object],
        *,
        version: int = 1,
        task_to_domain: Mapping[str, str] = conductor.NO_DOMAINS,
    ) -> str:
        body = {
            "name": name,
            "version": version,
            "input": mapping.plain_json(workflow_input, "input"),
            "taskToDomain": dict(task_to_domain),
        }
        purpose = f"start workflow {name}"
        workflow_id = await self._call(ApiRequest(purpose, "POST", "/workflow", body=body))
        if not isinstance(workflow_id, str):
            raise errors.OutcomeUnknownError(
                f"{purpose} at {self._client.address}: expected a workflow id, "
                f"found {workflow_id!r}; look for the workflow before starting it again"
            )
        return workflow_id

    async def read(self, workflow_id: str) -> conductor.WorkflowRecord | None:
        if "/" in workflow_id:
            # Conductor's web server refuses such a path with 400, so no workflow has the id.
            return None
        return await self._found(_workflow(workflow_id), mapping.workflow_record)

    async def terminate(self, workflow_id: str, reason: str) -> None:
        purpose, path = f"terminate workflow {workflow_id}", path_of("workflow", workflow_id)
        await self._call(ApiRequest(purpose, "DELETE", path, {"reason": reason}))

    async def pause(self, workflow_id: str) -> None:
        await self._verb("PUT", "pause", workflow_id)

    async def resume(self, workflow_id: str) -> None:
        try:
            await self._verb("PUT", "resume", workflow_id)
        except errors.OutcomeUnknownError as error:
            # The server answers 500 for a workflow that is not paused; nothing is unknown then.
            if NOT_PAUSED not in str(error):
                raise
            raise errors.RequestRefusedError(str(error)) from error

    async def retry(self, workflow_id: str) -> None:
        try:
            await self._verb("POST", "retry", workflow_id)
        except errors.MissingError as error:
            # The server answers 404 for a workflow that is there, but is still running.
            if await self.read(workflow_id) is None:
                raise
            raise errors.RequestRefusedError(str(error)) from error

    async def rerun(
        self,
        workflow_id: str,
        from_task_id: str,
        task_input: Mapping[str, object] | None = None,
    ) -> None:
        body: dict[str, object] = {"reRunFromTaskId": from_task_id}
        if task_input is not None:
            body["taskInput"] = mapping.plain_json(task_input, "input")
        await self._verb("POST", "rerun", workflow_id, body)

    async def restart(self, workflow_id: str) -> None:
        await self._verb("POST", "restart", workflow_id)

    async def requeue(self, task_type: str) -> None:
        path = path_of("tasks", "queue", "requeue", task_type)
        await self._call(ApiRequest(f"requeue the tasks of type {task_type}", "POST", path))

    async def decide(self, workflow_id: str) -> None:
        path = path_of("workflow", "decide", workflow_id)
        await self._call(ApiRequest(f"decide workflow {workflow_id}", "PUT", path))

    async def _verb(self, method: Method, verb: str, workflow_id: str, body: object = None) -> None:
        path = path_of("workflow", workflow_id, verb)
        await self._call(ApiRequest(f"{verb} workflow {workflow_id}", method, path, body=body))


@final
class ConductorServer(Server):
    """One Conductor itself."""

    def __init__(self, client: ConductorClient) -> None:
        self._client = client

    async def greet(self) -> datetime | None:
        return await self._client.time()

    async def facts(self) -> ServerFacts:
        return ServerFacts(await ConductorTaskQueue(self._client).check())


def _workflow(workflow_id: str) -> ApiRequest:
    """One read of a workflow with all its rows."""
    path = path_of("workflow", workflow_id)
    return ApiRequest(f"read workflow {workflow_id}", "GET", path, {"includeTasks": True})
