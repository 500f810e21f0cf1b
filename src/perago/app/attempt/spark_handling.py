"""A workspace that Spark reads and writes itself: a commit to read, a private branch to write.

The branch is made before the body, with its name recorded first, and only what belongs to the
task is committed on it. Rows never pass through this process.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from perago.app.attempt.check_attempt import check_attempt
from perago.app.attempt.check_staged import refuse_unless_on_input
from perago.app.attempt.clean_up import delete_staging
from perago.app.attempt.dispatch import Dispatch, Scope, Traces
from perago.app.attempt.local_steps import call_body
from perago.app.attempt.spark_files import SparkFiles
from perago.app.attempt.spark_sweep import BranchSweep, list_workspace, refuse_dirty_target
from perago.app.attempt.stage import (
    commit_pieces,
    commit_plainly,
    commit_written,
    open_staging,
)
from perago.app.attempt.world import World
from perago.app.authoring.guardrails import check_guardrails_on_listing
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.errors import PublicationRefusedError
from perago.domain.publication_policy import Level
from perago.domain.references import BranchName, StagedReference, WorkspaceReference
from perago.ports.attempt_directory import AttemptMarker
from perago.ports.progress import Phase
from perago.ports.spark_workspace import SparkPlace

COMMITS_MAX = 5
"""Each further one removes what came late; a branch that is written to for longer is not ours."""


@dataclass(slots=True)
class SparkHandling:
    """The steps of a Spark attempt; without a scope it is read-only."""

    world: World
    dispatch: Dispatch
    traces: Traces
    workspace: WorkspaceReference
    scope: Scope | None
    _branch: BranchName | None = None
    _files: SparkFiles | None = None
    _sweep: BranchSweep | None = None

    async def open(self) -> None:
        """A directory holds the marker, so that GC finds the branch after a crash."""
        world, dispatch = self.world, self.dispatch
        owner = dispatch.settings.worker_id
        marker = AttemptMarker(dispatch.attempt, dispatch.execution_id, owner_worker_id=owner)
        directory = await world.directories.create(marker)
        self.traces.directory = directory
        if world.spark_gateway is None:
            self._files = SparkFiles(
                world, self.workspace, self._spec.prefix, directory, dispatch.execution_id
            )

    async def check(self, phase: str) -> None:
        """Judge a listing: of the input before the body, of the private branch after it."""
        guardrails = self._spec.pre if phase == "pre" else self._spec.post
        if phase == "post" and self._files is not None and self._branch is not None:
            await self._files.store(self._branch)
        ref = self._branch if phase == "post" and self._branch is not None else self.workspace.ref
        if guardrails:
            paths = await list_workspace(
                self.world, self.workspace.repository, ref, self._spec.prefix
            )
            check_guardrails_on_listing(paths, guardrails, phase)
        done = Phase.PRE_CHECKED if phase == "pre" else Phase.POST_CHECKED
        self.world.progress.phase(done, {"guardrails": len(guardrails)})

    async def run_body(self, params: Mapping[str, object]) -> Mapping[str, object]:
        """Attempt fence, private branch, body: a stale attempt must not even make a branch."""
        if self.scope is not None:
            await check_attempt(self.world, self.dispatch)
            self._branch = await open_staging(self.world, self.scope)
        place = await self._place()
        return await call_body(self.world, self.dispatch, params, None, spark=place)

    async def drop_writes(self) -> None:
        """There was nowhere to write."""

    async def changed(self) -> bool:
        """Remove litter, refuse what does not belong to the task, see what is left.

        A no-op needs no branch, unless `settled` puts its empty commit there.
        """
        assert self.scope is not None, "read-only attempts stage nothing"
        branch, place = self._staging_branch, self.workspace
        await refuse_dirty_target(self.world, place)
        self._sweep = BranchSweep(self.world, place, branch, self._spec.prefix)
        swept = await self._sweep.uncommitted()
        head = await self.world.lakefs.branches.head(place.repository, branch)
        if head.commit != place.ref:  # the body has committed on its branch itself
            await refuse_unless_on_input(self.world, place, head.commit)
            commit = await commit_plainly(self.world, self.scope, branch)
            swept = await self._sweep.committed(commit)
        facts = {"changed": swept.changed, "deleted": swept.removed, "litter": swept.litter}
        self.world.progress.phase(Phase.COMPARED, facts)
        if not swept.has_changes and self.scope.ground.level is not Level.SETTLED:
            await delete_staging(self.world, place.repository, branch)
            self.traces.staging = None
        return swept.has_changes

    async def stage_changes(self, result: Mapping[str, object]) -> StagedReference:
        """Commit what Spark wrote."""
        return await self._commit(result, noop=False)

    async def stage_nothing(self, result: Mapping[str, object]) -> StagedReference:
        """An empty commit on the branch that is there already."""
        return await self._commit(result, noop=True)

    async def _commit(self, result: Mapping[str, object], *, noop: bool) -> StagedReference:
        """Commit, and judge what was committed: whatever came late is removed in another one."""
        assert self.scope is not None, "read-only attempts stage nothing"
        assert self._sweep is not None, "compared before"
        branch = self._staging_branch
        await commit_pieces(self.world, self.scope, branch, result)
        for _ in range(COMMITS_MAX):
            staged = await commit_written(self.world, self.scope, branch, result, noop=noop)
            swept = await self._sweep.committed(staged.commit)
            if swept.litter == 0 and swept.has_changes is not noop:
                return staged
        text = f"{branch} is still written to after the body has ended; nothing was published"
        raise PublicationRefusedError(text, code="PRG-K007")

    async def _place(self) -> SparkPlace:
        gateway, place = self.world.spark_gateway, self.workspace
        if self._files is not None:
            input_root, output_root = await self._files.fetch(writes=self._branch is not None)
        else:
            input_root = f"s3a://{place.repository}/{place.ref}/"
            output_root = None
            if self._branch is not None:
                output_root = f"s3a://{place.repository}/{self._branch}/"
        return SparkPlace(
            repository=place.repository,
            input_ref=place.ref,
            prefix=self._spec.prefix,
            input_root=input_root,
            output_root=output_root,
            staging_branch=self._branch,
            gateway=gateway,
        )

    @property
    def _staging_branch(self) -> BranchName:
        assert self._branch is not None, "the branch was made before the body"
        return self._branch

    @property
    def _spec(self) -> WorkspaceSpec:
        assert self.dispatch.task.workspace is not None, "only workspace tasks come here"
        return self.dispatch.task.workspace
