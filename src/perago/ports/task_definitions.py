"""Task definitions registered in Conductor."""

from collections.abc import Mapping
from typing import Protocol


class TaskDefinitions(Protocol):
    """Task definitions of one Conductor installation, in Conductor's own JSON form.

    Laws (tests/contract/test_task_definitions.py has one test for each, by name):

    D1 put_then_read: a definition reads back with every field that was put.
    D2 put_replaces: a second put replaces the record; absent fields return to defaults.
    D3 absent_definition_is_none: reading an unknown name is None.
    D4 defaults: a definition with nothing but a name has the server's defaults.
    D5 impossible_timeouts_are_refused: a response time-out above a time-out that is not 0, or
       below 1, raises RequestRefusedError.
    """

    async def read(self, name: str) -> Mapping[str, object] | None:
        """Read one definition, or None."""
        ...

    async def put(self, definition: Mapping[str, object]) -> None:
        """Create or replace one definition."""
        ...
