"""An attempt's workspace, from the input commit to the staged one: a local directory or Spark.

Each step is a method of the value that the step before has made, so none can be called too early:
`open_workspace` -> Opened -> `run` -> Ran -> `compare` -> Compared -> `stage`. What was staged goes
to `check_staged` of Ran, which knows where the checks can see it.
"""

from collections.abc import Mapping
from typing import Protocol

from perago.app.attempt.context import Target
from perago.domain.logical_execution import StagedReference


class Compared(Protocol):
    """A workspace after the task function, beside what the input commit holds."""

    @property
    def changed(self) -> bool:
        """Whether there is anything to publish."""
        ...

    async def stage(self) -> StagedReference:
        """Commit the changes and the result on the private branch, or that nothing changed."""
        ...


class Ran(Protocol):
    """A workspace in which the task function has ended, and its validated result."""

    @property
    def result(self) -> Mapping[str, object]:
        """What the task function returned, as plain JSON."""
        ...

    async def check(self) -> None:
        """The author's `post` guardrails; a violation fails the attempt."""
        ...

    async def drop_writes(self) -> None:
        """The end of a read-only attempt: what was written is said, never published."""
        ...

    async def check_staged(self, target: Target, staged: StagedReference) -> None:
        """The author's checks of what was staged; a failed one fails the attempt."""
        ...

    async def compare(self, target: Target) -> Compared:
        """Find what the task function changed."""
        ...


class Opened(Protocol):
    """A workspace that shows the input commit."""

    async def check(self) -> None:
        """The author's `pre` guardrails; a violation is terminal, a retry has the same input."""
        ...

    async def run(self, params: Mapping[str, object]) -> Ran:
        """Run the team's task function."""
        ...
