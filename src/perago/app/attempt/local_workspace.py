"""The steps on the local disk: the workspace down, the guardrails, the body."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from perago.app.attempt.context import Dispatch, Scope, Traces, World
from perago.app.attempt.stage import stage_changes, stage_nothing
from perago.app.authoring.guardrails import check_guardrails
from perago.domain.errors import BodyFailedError, PeragoError
from perago.domain.logical_execution import StagedReference, WorkspaceReference
from perago.domain.sync_plan import SyncPlan
from perago.ports.errors import WorldError
from perago.ports.task_body import BodyCall, BodyRaised, BodyReturned, BodyStopped
from perago.ports.workspace import AttemptMarker, Materialised, Phase, SparkPlace, WorkspaceSource

DROPPED_PATHS_NAMED_MAX = 10


async def materialise(
    world: World, dispatch: Dispatch, traces: Traces, workspace: WorkspaceReference
) -> tuple[Path, Materialised]:
    """A fresh directory with exactly what the input commit holds under the prefix."""
    assert dispatch.task.workspace is not None, "only workspace tasks have one"
    marker = AttemptMarker(
        dispatch.attempt, dispatch.execution_id, owner_worker_id=dispatch.settings.worker_id
    )
    directory = await world.directories.create(marker)
    traces.directory = directory
    source = WorkspaceSource(workspace.repository, workspace.ref, dispatch.task.workspace.prefix)
    materialised = await world.stop_order.before_end_of(
        world.lakefs.pipeline.materialise(source, directory)
    )
    if isinstance(materialised, BodyStopped):
        raise BodyFailedError(materialised.reason)
    traces.materialised = materialised
    counts = materialised.counts
    facts = {
        "objects": counts.objects,
        "bytes": counts.bytes,
        "reused": counts.reused,
        "transfer_requests": counts.requests,
    }
    world.progress.phase(Phase.MATERIALISED, facts)
    return directory, materialised


async def check_workspace(world: World, dispatch: Dispatch, directory: Path, phase: str) -> None:
    """The author's guardrails; `pre` violations are terminal."""
    spec = dispatch.task.workspace
    assert spec is not None, "only workspace tasks have guardrails"
    guardrails = spec.pre if phase == "pre" else spec.post
    if guardrails:
        await world.concurrency.blocking(lambda: check_guardrails(directory, guardrails, phase))
    done = Phase.PRE_CHECKED if phase == "pre" else Phase.POST_CHECKED
    world.progress.phase(done, {"guardrails": len(guardrails)})


async def call_body(
    world: World,
    dispatch: Dispatch,
    params: Mapping[str, object],
    directory: Path | None,
    *,
    spark: SparkPlace | None = None,
) -> Mapping[str, object]:
    """Run the team's function; its validated result as plain JSON."""
    call = BodyCall(
        task_name=dispatch.task.name,
        attempt=dispatch.attempt,
        execution_id=dispatch.execution_id,
        params=params,
        workspace=directory,
        seconds_max=dispatch.task.controls.body_seconds or dispatch.settings.body_seconds,
        spark=spark,
    )
    outcome = await world.body.run(call)
    world.progress.phase(Phase.BODY_ENDED, {"outcome": type(outcome).__name__})
    match outcome:
        case BodyReturned(result):
            return result
        case BodyRaised(reason, terminal, traceback):
            error = BodyFailedError(reason, terminal=terminal)
            error.add_note(traceback)
            raise error
        case BodyStopped(reason):
            raise BodyFailedError(reason)


async def warn_of_dropped_writes(world: World, materialised: Materialised) -> None:
    """A read-only task publishes nothing; what it wrote is said, then dropped.

    Whatever cannot be compared (a symlink, a removed directory) is dropped as well.
    """
    facts: dict[str, object] = {"warning": "local writes of a read-only task were dropped"}
    try:
        plan = await world.lakefs.pipeline.plan(materialised)
    except (PeragoError, WorldError) as error:
        world.progress.phase(Phase.WARNED, {**facts, "error": str(error)})
        return
    if not plan.is_empty:
        written = chain((file.path for file in plan.upload), (to.path for to, _ in plan.copy))
        facts["paths"] = list(islice(chain(written, plan.delete), DROPPED_PATHS_NAMED_MAX))
        world.progress.phase(Phase.WARNED, facts)


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
