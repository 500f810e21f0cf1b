"""Task definitions of a real Conductor, in its own JSON, untouched in both directions."""

from collections.abc import Mapping
from typing import final

from perago.adapters.conductor.api_request import ApiClient, ApiRequest, Effect, path_of
from perago.adapters.conductor.json_values import plain_json
from perago.adapters.conductor.task_mapping import json_object
from perago.ports.conductor import TaskDefinitions
from perago.ports.errors import MissingError


@final
class ConductorTaskDefinitions(TaskDefinitions):
    """Reads and registers definitions."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def read(self, name: str) -> Mapping[str, object] | None:
        read = ApiRequest(
            f"read task definition {name}", "GET", path_of("metadata", "taskdefs", name)
        )
        try:
            answer = await self._client.call(read)
        except MissingError:
            return None
        return json_object(answer, "a task definition")

    async def put(self, definition: Mapping[str, object]) -> None:
        await self._client.call(
            ApiRequest(
                f"register task definition {definition.get('name')}",
                "POST",  # takes a list and replaces; PUT refuses a name that is new
                "/metadata/taskdefs",
                body=[plain_json(definition, "definition")],
                effect=Effect.WRITE,
            )
        )
