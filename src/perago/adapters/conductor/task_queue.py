"""The task queue of a real Conductor, over its REST API.

Which endpoint serves which question is decided here. Terminal updates use `POST /tasks`: the
newer update-v2 hands out another task in its answer. Must not know what follows from a row.
"""

import re
from typing import final

from perago.adapters.conductor.api_request import ApiClient, ApiRequest, Effect, path_of
from perago.adapters.conductor.error_mapping import NotConductorError
from perago.adapters.conductor.task_mapping import (
    attempt_record,
    heartbeat_body,
    json_list,
    json_object,
    terminal_body,
    workflow_snapshot,
)
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, WorkflowSnapshot
from perago.ports.conductor import PollRequest, TaskQueue, TerminalUpdate
from perago.ports.errors import MissingError, UnavailableError

POLL_ANSWER_SECONDS = 15.0  # beyond the wait that the server was asked for
VERSION = re.compile(r"v?\d+\.\d+\S*")


@final
class ConductorTaskQueue(TaskQueue):
    """Polls, reads and updates task rows."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def poll(self, request: PollRequest) -> tuple[AttemptRecord, ...]:
        answer = await self._client.call(
            ApiRequest(
                f"poll {request.task_type}",
                "GET",
                path_of("tasks", "poll", "batch", request.task_type),
                query={
                    "workerid": request.worker_id,
                    "domain": request.domain,
                    "count": request.count,
                    "timeout": request.wait_ms,
                },
                timeout_seconds=request.wait_ms / 1000 + POLL_ANSWER_SECONDS,
                is_poll=True,
            )
        )
        return tuple(attempt_record(row) for row in json_list(answer, "polled tasks"))

    async def read_attempt(self, workflow_id: str, task_id: str) -> AttemptRecord | None:
        read = ApiRequest(
            f"read task {task_id} of workflow {workflow_id}", "GET", path_of("tasks", task_id)
        )
        try:
            answer = await self._client.call(read)
        except MissingError:
            return None
        return attempt_record(answer)

    async def read_workflow(self, workflow_id: str) -> WorkflowSnapshot | None:
        try:
            answer = await self._client.call(workflow_read(workflow_id))
        except MissingError:
            return None
        return workflow_snapshot(answer)

    async def extend_lease(self, attempt: AttemptSnapshot, worker_id: str) -> None:
        await self._update(
            f"extend the lease of task {attempt.task_id}", heartbeat_body(attempt, worker_id)
        )

    async def complete(self, update: TerminalUpdate, *, timeout_seconds: float) -> None:
        purpose = f"send {update.status} for task {update.attempt.task_id}"
        await self._update(purpose, terminal_body(update), timeout_seconds=timeout_seconds)

    async def log(self, task_id: str, line: str) -> None:
        await self._client.call(
            ApiRequest(
                f"log to task {task_id}",
                "POST",
                path_of("tasks", task_id, "log"),
                text=line,
                effect=Effect.WRITE,
            )
        )

    async def read_log(self, task_id: str) -> tuple[str, ...]:
        answer = await self._client.call(
            ApiRequest(f"read the log of task {task_id}", "GET", path_of("tasks", task_id, "log"))
        )
        lines = (json_object(entry, "a log line") for entry in json_list(answer, "log lines"))
        return tuple(str(line.get("log", "")) for line in lines)

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
        raise UnavailableError(
            f"no Conductor at {self._client.address}: /version answers with something else than "
            f"a version like 3.x; {remedy}"
        )

    async def _version(self, path: str) -> str | None:
        """What answers there if it is a version; only a missing answer is an error."""
        try:
            answer = await self._client.call(ApiRequest("ask for the version", "GET", path))
        except (MissingError, NotConductorError):
            return None
        version = str(answer)
        return version if VERSION.fullmatch(version) else None

    async def _update(
        self, purpose: str, body: dict[str, object], timeout_seconds: float | None = None
    ) -> None:
        await self._client.call(
            ApiRequest(
                purpose,
                "POST",
                "/tasks",
                body=body,
                effect=Effect.WRITE,
                timeout_seconds=timeout_seconds,
            )
        )


def workflow_read(workflow_id: str) -> ApiRequest:
    """One read of a workflow with all its rows."""
    return ApiRequest(
        f"read workflow {workflow_id}",
        "GET",
        path_of("workflow", workflow_id),
        query={"includeTasks": True},
    )
