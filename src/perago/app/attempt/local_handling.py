"""A workspace as a directory on the local disk: down before the body, compared and up after it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.app.attempt.dispatch import Dispatch, Scope, Traces
from perago.app.attempt.local_steps import (
    call_body,
    check_workspace,
    materialise,
    warn_of_dropped_writes,
)
from perago.app.attempt.stage import stage_changes, stage_nothing
from perago.app.attempt.world import World
from perago.domain.references import StagedReference, WorkspaceReference
from perago.domain.sync_plan import SyncPlan
from perago.ports.progress import Phase
from perago.ports.workspace_pipeline import Materialised


@dataclass(slots=True)
class LocalHandling:
    """The steps of a local attempt, and what one leaves for the next."""

    world: World
    dispatch: Dispatch
    traces: Traces
    workspace: WorkspaceReference
    scope: Scope | None
    _opened: tuple[Path, Materialised] | None = None
    _plan: SyncPlan | None = None

    async def open(self) -> None:
        """Download into a fresh directory."""
        self._opened = await materialise(self.world, self.dispatch, self.traces, self.workspace)

    async def check(self, phase: str) -> None:
        """Judge the directory."""
        await check_workspace(self.world, self.dispatch, self._directory, phase)

    async def run_body(self, params: Mapping[str, object]) -> Mapping[str, object]:
        """The body gets the directory."""
        return await call_body(self.world, self.dispatch, params, self._directory)

    async def drop_writes(self) -> None:
        """Compare only to say what is dropped."""
        await warn_of_dropped_writes(self.world, self._materialised)

    async def changed(self) -> bool:
        """Compare with what was downloaded; the directory must still be this execution's.

        Asked on both sides of the scan: a cleaner that removes files while they are compared
        takes the marker too, and what it removed would look like deletions of the body.
        """
        await self.world.directories.check(self._directory, self.dispatch.execution_id)
        plan = await self.world.lakefs.pipeline.plan(self._materialised)
        await self.world.directories.check(self._directory, self.dispatch.execution_id)
        self._plan = plan
        counts = {"upload": len(plan.upload), "copy": len(plan.copy), "delete": len(plan.delete)}
        self.world.progress.phase(Phase.COMPARED, counts)
        return not plan.is_empty

    async def stage_changes(self, result: Mapping[str, object]) -> StagedReference:
        """Upload the plan and commit it."""
        assert self.scope is not None, "read-only attempts stage nothing"
        assert self._plan is not None, "compared before"
        return await stage_changes(self.world, self.scope, self._materialised, self._plan, result)

    async def stage_nothing(self, result: Mapping[str, object]) -> StagedReference:
        """An empty commit."""
        assert self.scope is not None, "read-only attempts stage nothing"
        return await stage_nothing(self.world, self.scope, result)

    @property
    def _directory(self) -> Path:
        assert self._opened is not None, "opened before"
        return self._opened[0]

    @property
    def _materialised(self) -> Materialised:
        assert self._opened is not None, "opened before"
        return self._opened[1]
