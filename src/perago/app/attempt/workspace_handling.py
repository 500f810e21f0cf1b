"""How an attempt gets at its workspace: one shape for a local directory and for Spark.

The spine calls these steps in their order; the policies, the fences between them and cleaning up
are the same for both. Which one it is, is decided here, by the annotation of the task function.
"""

from collections.abc import Mapping
from typing import Protocol

from perago.app.attempt.context import Dispatch, Scope, Traces, World
from perago.app.attempt.local_workspace import LocalHandling
from perago.app.attempt.spark_workspace import SparkHandling
from perago.domain.logical_execution import StagedReference, WorkspaceReference


class WorkspaceHandling(Protocol):
    """The steps around a body that touch its workspace, each called once and in this order."""

    async def open(self) -> None:
        """Make the workspace of the input commit visible."""
        ...

    async def check(self, phase: str) -> None:
        """The author's guardrails; `pre` violations are terminal."""
        ...

    async def run_body(self, params: Mapping[str, object]) -> Mapping[str, object]:
        """Run the team's function; its validated result as plain JSON."""
        ...

    async def drop_writes(self) -> None:
        """The end of a read-only attempt: what was written is said, never published."""
        ...

    async def changed(self) -> bool:
        """Whether there is anything to publish."""
        ...

    async def stage_changes(self, result: Mapping[str, object]) -> StagedReference:
        """Commit the changes on the private branch."""
        ...

    async def stage_nothing(self, result: Mapping[str, object]) -> StagedReference:
        """Commit that nothing changed, for `settled`."""
        ...


def handle_workspace(
    world: World,
    dispatch: Dispatch,
    traces: Traces,
    workspace: WorkspaceReference,
    scope: Scope | None,
) -> WorkspaceHandling:
    """The handling that the task's annotation asks for; no scope means read-only."""
    if dispatch.task.on_spark:
        return SparkHandling(world, dispatch, traces, workspace, scope)
    return LocalHandling(world, dispatch, traces, workspace, scope)
