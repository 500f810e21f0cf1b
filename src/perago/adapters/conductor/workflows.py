"""What an operator does to workflows of a real Conductor, one endpoint for each verb."""

from collections.abc import Mapping
from typing import final

from perago.adapters.conductor.api_request import (
    ApiClient,
    ApiRequest,
    Effect,
    Method,
    Query,
    path_of,
)
from perago.adapters.conductor.json_values import plain_json
from perago.adapters.conductor.task_mapping import json_object, release_body
from perago.adapters.conductor.task_queue import workflow_read
from perago.adapters.conductor.workflow_mapping import workflow_record
from perago.domain.attempt import AttemptRecord
from perago.ports.conductor import NO_DOMAINS, WorkflowRecord, Workflows
from perago.ports.errors import MissingError, OutcomeUnknownError, RequestRefusedError

NOT_PAUSED = "is not PAUSED so cannot resume"


@final
class ConductorWorkflows(Workflows):
    """Defines, starts, ends, repeats and reads workflows."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def put_definition(self, definition: Mapping[str, object]) -> None:
        purpose = f"register workflow definition {definition.get('name')}"
        body = [plain_json(definition, "definition")]
        answer = await self._write(purpose, "PUT", "/metadata/workflow", body=body)
        # A refused definition is answered with 200 and stands among the errors.
        result = json_object(answer or {}, "the result of a registration")
        if errors := result.get("bulkErrorResults"):
            raise RequestRefusedError(f"{purpose} at {self._client.address}: {errors}")

    async def start(
        self,
        name: str,
        workflow_input: Mapping[str, object],
        *,
        version: int = 1,
        task_to_domain: Mapping[str, str] = NO_DOMAINS,
    ) -> str:
        body = {
            "name": name,
            "version": version,
            "input": plain_json(workflow_input, "input"),
            "taskToDomain": dict(task_to_domain),
        }
        workflow_id = await self._write(f"start workflow {name}", "POST", "/workflow", body=body)
        if not isinstance(workflow_id, str):
            raise OutcomeUnknownError(
                f"start workflow {name} at {self._client.address}: expected a workflow id, "
                f"found {workflow_id!r}; look for the workflow before starting it again"
            )
        return workflow_id

    async def read(self, workflow_id: str) -> WorkflowRecord | None:
        try:
            answer = await self._client.call(workflow_read(workflow_id))
        except MissingError:
            return None
        return workflow_record(answer)

    async def terminate(self, workflow_id: str, reason: str) -> None:
        await self._write(
            f"terminate workflow {workflow_id}",
            "DELETE",
            path_of("workflow", workflow_id),
            query={"reason": reason},
        )

    async def pause(self, workflow_id: str) -> None:
        await self._verb("PUT", workflow_id, "pause")

    async def resume(self, workflow_id: str) -> None:
        try:
            await self._verb("PUT", workflow_id, "resume")
        except OutcomeUnknownError as error:
            # The server answers 500 for a workflow that is not paused; nothing is unknown then.
            if NOT_PAUSED not in str(error):
                raise
            raise RequestRefusedError(str(error)) from error

    async def retry(self, workflow_id: str) -> None:
        try:
            await self._verb("POST", workflow_id, "retry")
        except MissingError as error:
            # The server answers 404 for a workflow that is there, but is still running.
            if await self.read(workflow_id) is None:
                raise
            raise RequestRefusedError(str(error)) from error

    async def rerun(
        self,
        workflow_id: str,
        from_task_id: str,
        task_input: Mapping[str, object] | None = None,
    ) -> None:
        body: dict[str, object] = {"reRunFromTaskId": from_task_id}
        if task_input is not None:
            body["taskInput"] = plain_json(task_input, "input")
        await self._verb("POST", workflow_id, "rerun", body=body)

    async def restart(self, workflow_id: str) -> None:
        await self._verb("POST", workflow_id, "restart")

    async def requeue(self, task_type: str) -> None:
        await self._write(
            f"requeue the tasks of type {task_type}",
            "POST",
            path_of("tasks", "queue", "requeue", task_type),
        )

    async def release_without_result(self, attempt: AttemptRecord) -> None:
        snapshot = attempt.snapshot
        await self._write(
            f"release task {snapshot.task_id}", "POST", "/tasks", body=release_body(snapshot)
        )

    async def decide(self, workflow_id: str) -> None:
        await self._write(
            f"decide workflow {workflow_id}", "PUT", path_of("workflow", "decide", workflow_id)
        )

    async def _verb(
        self, method: Method, workflow_id: str, verb: str, *, body: object = None
    ) -> None:
        path = path_of("workflow", workflow_id, verb)
        await self._write(f"{verb} workflow {workflow_id}", method, path, body=body)

    async def _write(
        self,
        purpose: str,
        method: Method,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
    ) -> object:
        return await self._client.call(
            ApiRequest(purpose, method, path, query=query or {}, body=body, effect=Effect.WRITE)
        )
