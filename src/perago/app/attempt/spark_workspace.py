"""Spark without a gateway: both sides of a workspace are local files, as in the in-memory world.

The input commit and a copy to write on are brought down; what Spark changed in the copy goes up
to the private branch. Everything after that is as if Spark had written there itself.
"""

import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from perago.app.attempt.complete import check_attempt, delete_staging
from perago.app.attempt.context import Dispatch, Scope, Traces, World
from perago.app.attempt.local_workspace import call_body
from perago.app.attempt.stage import (
    commit_pieces,
    commit_plainly,
    commit_written,
    open_staging,
    refuse_unless_on_input,
)
from perago.app.authoring.guardrails import check_guardrails_on_listing
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import ExecutionId
from perago.domain.errors import PATHS_NAMED_MAX, OutsidePrefixError, PublicationRefusedError
from perago.domain.key_ranges import JobFiles, manifest_job, parse_manifest
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    RepositoryId,
    StagedReference,
    WorkspaceReference,
)
from perago.domain.names import is_foreign_write, is_job_litter
from perago.domain.paths import is_reserved_object, listing_prefix
from perago.domain.publication import Level
from perago.ports.lakefs import Change, ChangeKind, ChangePage
from perago.ports.objects import DELETE_PATHS_MAX
from perago.ports.workspace import (
    AttemptMarker,
    Materialised,
    Phase,
    SparkPlace,
    StagingArea,
    WorkspaceSource,
)


@dataclass(slots=True)
class SparkFiles:
    """The two directories of one attempt, below its own."""

    world: World
    workspace: WorkspaceReference
    prefix: str
    directory: Path
    execution_id: ExecutionId
    _output: Materialised | None = field(default=None)

    async def fetch(self, *, writes: bool) -> tuple[str, str | None]:
        """Bring down what is needed; the two roots as URIs."""
        await self._materialise("input")
        if not writes:
            return self._root("input"), None
        self._output = await self._materialise("output")
        return self._root("input"), self._root("output")

    async def store(self, branch: BranchName) -> None:
        """Bring what Spark changed onto the private branch, uncommitted."""
        assert self._output is not None, "fetched before"
        pipeline, output = self.world.lakefs.pipeline, self._output
        await self.world.concurrency.blocking(lambda: remove_litter(output.directory))
        # On both sides of the scan, as for a local workspace: a cleaner takes the marker too.
        await self.world.directories.check(self.directory, self.execution_id)
        plan = await pipeline.plan(output)
        await self.world.directories.check(self.directory, self.execution_id)
        place = self.workspace
        area = StagingArea(StagedReference(place.repository, branch, place.ref), self.prefix)
        await pipeline.transfer(output, plan, area)

    async def _materialise(self, name: str) -> Materialised:
        directory = self.directory / name / listing_prefix(self.prefix)
        await self.world.concurrency.blocking(lambda: directory.mkdir(parents=True))
        source = WorkspaceSource(self.workspace.repository, self.workspace.ref, self.prefix)
        return await self.world.lakefs.pipeline.materialise(source, directory)

    def _root(self, name: str) -> str:
        """Hadoop takes paths as they are: nothing is escaped as in other URIs."""
        return f"file://{(self.directory / name).as_posix()}/"


def remove_litter(root: Path) -> None:
    """Hadoop writes hidden checksums beside local files; task directories may be left."""
    for path in sorted(root.rglob("*"), reverse=True):
        relative = path.relative_to(root).as_posix()
        if is_job_litter(relative):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


PAGES_MAX = 1_000_000
LITTER_KEPT_MAX = 10_000
DIRTY_OBJECTS_NAMED_MAX = 5


@dataclass(slots=True)
class Swept:
    """What a body left on its branch."""

    changed: int = 0
    removed: int = 0
    litter: int = 0
    foreign: list[str] = field(default_factory=list[str])

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to publish."""
        return self.changed + self.removed > 0

    def count(self, change: Change, prefix: str) -> None:
        """Take one change that is no litter; of the foreign ones only the first are kept."""
        if is_foreign_write(change.path, prefix):
            if len(self.foreign) <= PATHS_NAMED_MAX:
                self.foreign.append(change.path)
        elif change.kind is ChangeKind.REMOVED:
            self.removed += 1
        else:
            self.changed += 1


ChangePages: TypeAlias = Callable[[str], Awaitable[ChangePage]]
"""Answers the page of changes after a path."""


@dataclass(slots=True)
class BranchSweep:
    """Looks at one private branch: before its commit at what is not committed, then at all of it.

    A body holds keys, so it may have committed on its branch itself, and an executor that was
    lost may still write. What is staged is therefore judged once more, as the difference between
    the input and the staged commit, by whomever that was committed.
    """

    world: World
    workspace: WorkspaceReference
    branch: BranchName
    prefix: str
    _named: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """What manifests have named so far, by job: they are deleted when they have been read."""

    async def uncommitted(self) -> Swept:
        """Delete litter that is not committed, count changes; raise when any is foreign."""
        place = self.workspace

        async def page(after: str) -> ChangePage:
            commits = self.world.lakefs.commits
            return await commits.uncommitted_page(place.repository, self.branch, after=after)

        return await self._sweep(page)

    async def committed(self, commit: CommitId) -> Swept:
        """The same for everything in which a commit of the branch differs from the input.

        Litter is deleted from the branch and not from the commit: where there was some, another
        commit has to follow.
        """
        place = self.workspace

        async def page(after: str) -> ChangePage:
            return await self.world.lakefs.commits.diff_page(
                place.repository, place.ref, commit, prefix="", after=after
            )

        return await self._sweep(page)

    async def _sweep(self, pages: ChangePages) -> Swept:
        """Litter that the input commit has already is left as the body left it."""
        swept, litter, jobs = Swept(), list[str](), JobFiles()
        after = ""
        for _ in range(PAGES_MAX):
            page = await pages(after)
            for change in page.changes:
                added = change.kind is ChangeKind.ADDED
                if added and is_job_litter(change.path):
                    litter.append(change.path)
                elif not (added and jobs.take(change.path)):
                    swept.count(change, self.prefix)
            if len(litter) > LITTER_KEPT_MAX or not page.more:
                await self._delete(litter)
                swept.litter += len(litter)
                litter = []
            if not page.more:
                break
            after = page.changes[-1].path
        await self._settle_jobs(jobs, swept)
        if swept.foreign:
            raise OutsidePrefixError(self.prefix, swept.foreign)
        return swept

    async def _settle_jobs(self, jobs: JobFiles, swept: Swept) -> None:
        """Keep what manifests name; delete the rest and the manifests themselves."""
        objects, repository = self.world.lakefs.objects, self.workspace.repository
        for job, path in jobs.manifests.items():
            names = parse_manifest(await objects.read(repository, self.branch, path))
            self._named[job] = names | self._named.get(job, frozenset())
        losers = list(jobs.losers(self._named))
        lost = set(losers)
        for paths in jobs.files.values():
            for path in paths:
                if path not in lost:
                    swept.count(Change(path, ChangeKind.ADDED), self.prefix)
        rest = [*losers, *jobs.manifests.values()]
        await self._delete(rest)
        swept.litter += len(rest)

    async def _delete(self, paths: list[str]) -> None:
        for start in range(0, len(paths), DELETE_PATHS_MAX):
            batch = paths[start : start + DELETE_PATHS_MAX]
            objects = self.world.lakefs.objects
            await objects.delete_many(self.workspace.repository, self.branch, batch)


async def list_workspace(
    world: World, repository: RepositoryId, ref: str, prefix: str
) -> list[str]:
    """The relative paths of a workspace in lakeFS, without litter and reserved objects."""
    outer = listing_prefix(prefix)
    found, after = list[str](), ""
    for _ in range(PAGES_MAX):
        page = await world.lakefs.objects.list_page(repository, ref, prefix=outer, after=after)
        for entry in page.entries:
            path = entry.path
            hidden = is_reserved_object(path) or is_job_litter(path) or manifest_job(path)
            if not hidden:
                found.append(path[len(outer) :])
        if not page.more:
            break
        after = page.entries[-1].path
    return found


async def refuse_dirty_target(world: World, workspace: WorkspaceReference) -> None:
    """A Spark body holds keys that could write to the target itself: such writes fail closed."""
    page = await world.lakefs.commits.uncommitted_page(
        workspace.repository, workspace.branch, amount=DIRTY_OBJECTS_NAMED_MAX
    )
    if page.changes:
        names = ", ".join(change.path for change in page.changes)
        more = ", ..." if page.more else ""
        place = f"lakefs://{workspace.repository}/{workspace.branch}"
        text = f"{place} has uncommitted objects ({names}{more}); `lakectl branch reset {place}`"
        raise PublicationRefusedError(text, code="PRG-F013")


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
