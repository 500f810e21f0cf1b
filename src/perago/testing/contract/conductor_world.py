"""A Conductor installation as the contract suites see it: its ports, and what only time does.

Each adapter brings one: the in-memory server, and a real one. The suites know nothing else of
them; whatever a test needs beyond the ports is a verb here or is not needed.
"""

from typing import Protocol

from perago.ports.task_definitions import TaskDefinitions
from perago.ports.task_queue import TaskQueue
from perago.ports.workflows import Workflows


class ConductorWorld(Protocol):
    """One installation, shared by many tests: a test uses names of its own (`unique`)."""

    @property
    def queue(self) -> TaskQueue:
        """The queue as a worker reaches it."""
        ...

    @property
    def definitions(self) -> TaskDefinitions:
        """The task definitions."""
        ...

    @property
    def workflows(self) -> Workflows:
        """The workflows as an operator reaches them."""
        ...

    def unique(self, stem: str) -> str:
        """A name that starts with `stem` (letters, digits, `_`) and was never used before.

        Task types, workflow names, worker ids and domains of the tests come from here.
        """
        ...

    async def nudge(self, workflow_id: str) -> None:
        """Apply what is due now: time-outs, retries, the next tasks, and loops and joins.

        The real server decides the workflow (its own sweep may come a minute late); the
        in-memory one does the same on its virtual clock, after a clock step of a millisecond.
        """
        ...

    async def let_pass(self, seconds: float) -> None:
        """Let time pass: sleeps on the real server, moves the clock of the in-memory one."""
        ...
