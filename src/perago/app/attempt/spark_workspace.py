"""The workspace of a Spark task: opened, run and staged, with or without a gateway.

With a gateway to the object store, Spark reads the input commit and writes to the private branch
itself. Without one, both sides are local files, as in the in-memory ports: the input commit and a
copy to write on are brought down, and what Spark changed in the copy goes up. Everything after that
is the same.
"""

import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from perago.app.attempt import stage
from perago.app.attempt.complete import check_attempt, delete_staging
from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.app.attempt.effects import refuse_dirty_target
from perago.app.attempt.patience import LAKEFS
from perago.app.attempt.task_function import Returned, call_body, call_checks
from perago.app.authoring.guardrails import check_guardrails_on_listing
from perago.domain import lakefs
from perago.domain.errors import PATHS_NAMED_MAX, OutsidePrefixError, PublicationRefusedError
from perago.domain.key_ranges import (
    JobFiles,
    is_foreign_write,
    is_job_litter,
    manifest_job,
    parse_manifest,
)
from perago.domain.paths import is_reserved_object, listing_prefix
from perago.domain.sync_plan import batched
from perago.ports.asking import pages
from perago.ports.lakefs import Change, ChangeKind
from perago.ports.objects import DELETE_PATHS_MAX, Page
from perago.ports.workspace import Materialised, Phase, SparkRoots, WorkspaceSource

LITTER_KEPT_MAX = 10_000  # paths in memory; more are deleted before the next page is asked for
COMMITS_MAX = 5
"""Spark tasks that were given up may still write after a commit; the next commit removes that. A
branch that is written to after five of them has a writer that does not end: the attempt fails."""
AskForChanges: TypeAlias = Callable[[str], Awaitable[Page[Change]]]
"""Answers the page of changes after a path."""


@dataclass(slots=True)
class SparkFiles:
    """The two directories of one attempt, below its own."""

    attempt: Attempt
    directory: Path
    _output: Materialised | None = field(default=None)

    async def fetch(self, *, writes: bool) -> tuple[str, str | None]:
        """Bring down what is needed; the two roots as URIs."""
        await self._materialise("input")
        if not writes:
            return self._root("input"), None
        self._output = await self._materialise("output")
        return self._root("input"), self._root("output")

    async def store(self, branch: stage.StagingBranch) -> None:
        """Bring what Spark changed onto the private branch, uncommitted."""
        assert self._output is not None, "fetched before"
        ports, execution_id, output = self.attempt.ports, self.attempt.execution_id, self._output
        await ports.concurrency.blocking(lambda: remove_litter(output.directory))
        # On both sides of the scan, as for a local workspace: a cleaner takes the marker too.
        await ports.directories.check(self.directory, execution_id)
        plan = await ports.lakefs.pipeline.plan(output)
        await ports.directories.check(self.directory, execution_id)
        await branch.upload(output, plan)

    async def fetch_staged(self, commit: lakefs.CommitId) -> str:
        """Bring the staged commit down beside the two: the output may hold litter of jobs."""
        await self._materialise("staged", commit)
        return self._root("staged")

    async def _materialise(self, name: str, commit: lakefs.CommitId | None = None) -> Materialised:
        ports, outer, prefix = self.attempt.ports, self.directory / name, self.attempt.spec.prefix
        directory = outer / listing_prefix(prefix)
        workspace = self.attempt.workspace
        source = WorkspaceSource(workspace.repository, commit or workspace.ref, prefix)

        def make_empty() -> None:
            shutil.rmtree(outer, ignore_errors=True)  # half of a download that got no answer
            directory.mkdir(parents=True)

        async def download() -> Materialised:
            await ports.concurrency.blocking(make_empty)
            return await ports.lakefs.pipeline.materialise(source, directory)

        return await ports.patience.until_done(LAKEFS, "the download", download)

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


@dataclass(slots=True)
class BranchSweep:
    """Looks at one private branch: before its commit at what is not committed, then at all of it.

    A body holds keys, so it may have committed on its branch itself, and an executor that was
    lost may still write. What is staged is therefore judged once more, as the difference between
    the input and the staged commit, by whomever that was committed.
    """

    branch: stage.StagingBranch
    _named: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """What manifests have named so far, by job: they are deleted when they have been read."""

    async def uncommitted(self) -> Swept:
        """Delete litter that is not committed, count changes; raise when any is foreign."""
        branch, ask = self.branch, self.branch.target.ports.lakefs.commits.uncommitted_page
        return await self._sweep(lambda after: ask(branch.repository, branch.name, after=after))

    async def committed(self, commit: lakefs.CommitId) -> Swept:
        """The same for everything in which a commit of the branch differs from the input.

        Litter is deleted from the branch and not from the commit: where there was some, another
        commit has to follow.
        """
        target = self.branch.target
        workspace, diff = target.workspace, target.ports.lakefs.commits.diff_page
        ask = partial(diff, workspace.repository, workspace.ref, commit, prefix="")
        return await self._sweep(lambda after: ask(after=after))

    async def _sweep(self, ask: AskForChanges) -> Swept:
        """Litter that the input commit has already is left as the body left it."""
        swept, litter, jobs = Swept(), list[str](), JobFiles()
        async for page in pages(ask):
            for change in page.items:
                added = change.kind is ChangeKind.ADDED
                if added and is_job_litter(change.path):
                    litter.append(change.path)
                elif not (added and jobs.take(change.path)):
                    swept.count(change, self.branch.target.prefix)
            if len(litter) > LITTER_KEPT_MAX or not page.more:
                await self._delete(litter)
                swept.litter += len(litter)
                litter = []
        await self._settle_jobs(jobs, swept)
        if swept.foreign:
            raise OutsidePrefixError(self.branch.target.prefix, swept.foreign)
        return swept

    async def _settle_jobs(self, jobs: JobFiles, swept: Swept) -> None:
        """Keep what manifests name; delete the rest and the manifests themselves."""
        branch, read = self.branch, self.branch.target.ports.lakefs.objects.read
        for job, path in jobs.manifests.items():
            names = parse_manifest(await read(branch.repository, branch.name, path))
            self._named[job] = names | self._named.get(job, frozenset())
        losers = list(jobs.losers(self._named))
        lost = set(losers)
        for paths in jobs.files.values():
            for path in paths:
                if path not in lost:
                    swept.count(Change(path, ChangeKind.ADDED), branch.target.prefix)
        rest = [*losers, *jobs.manifests.values()]
        await self._delete(rest)
        swept.litter += len(rest)

    async def _delete(self, paths: list[str]) -> None:
        branch, objects = self.branch, self.branch.target.ports.lakefs.objects
        for batch in batched(paths, DELETE_PATHS_MAX):
            await objects.delete_many(branch.repository, branch.name, batch)


async def list_workspace(
    ports: AttemptPorts, repository: lakefs.RepositoryId, ref: str, prefix: str
) -> dict[str, int]:
    """The relative paths of a workspace in lakeFS with their sizes, in order.

    Without litter and reserved objects.
    """
    outer = listing_prefix(prefix)
    listed = pages(
        lambda after: ports.lakefs.objects.list_page(repository, ref, prefix=outer, after=after)
    )
    sizes = {entry.path: entry.size async for page in listed for entry in page.items}
    return {
        path[len(outer) :]: size
        for path, size in sizes.items()
        if not (is_reserved_object(path) or is_job_litter(path) or manifest_job(path))
    }


@dataclass(frozen=True, slots=True)
class SparkCompared:
    """A private branch after it was swept, and whether anything is left to publish."""

    branch: stage.StagingBranch
    sweep: BranchSweep
    changed: bool
    result: Mapping[str, object]

    async def stage(self) -> lakefs.StagedReference:
        """Commit, and judge what was committed: whatever came late is removed in another one."""
        branch = self.branch
        stored = stage.stored_result(branch.target, self.result)
        await branch.commit_pieces(stored)
        for _ in range(COMMITS_MAX):
            staged = await branch.commit_written(stored, noop=not self.changed)
            swept = await self.sweep.committed(staged.commit)
            # `compare` said whether anything changed, and the no-op and the checks follow from it.
            # A commit for which a late write has turned that answer over must not be published.
            if swept.litter == 0 and swept.has_changes is self.changed:
                return staged
        text = f"{branch.name} is still written to after the task function has ended"
        text = f"{text}; nothing was published"
        raise PublicationRefusedError(text, code="PRG-K007")


@dataclass(frozen=True, slots=True)
class SparkRan:
    """What Spark left on the private branch; without a branch the task was read-only."""

    attempt: Attempt
    branch: stage.StagingBranch | None
    returned: Returned
    files: SparkFiles | None

    async def check_staged(self, target: Target, staged: lakefs.StagedReference) -> None:
        """Let the session of the checks read the staged commit, as the body's reads the input."""
        ports = self.attempt.ports
        root = f"s3a://{staged.repository}/{staged.commit}/"
        if self.files is not None:
            root = await self.files.fetch_staged(staged.commit)
        roots = SparkRoots(
            repository=staged.repository,
            input_ref=staged.commit,
            prefix=target.prefix,
            input_root=root,
            output_root=None,
            gateway=ports.spark_gateway,
        )
        sizes = await list_workspace(ports, staged.repository, staged.commit, target.prefix)
        await call_checks(target, staged, self.returned.seconds, roots, sizes)

    async def check(self) -> None:
        """Judge a listing of the private branch."""
        ref = self.attempt.workspace.ref if self.branch is None else self.branch.name
        await _check_listing(self.attempt, ref, "post")

    async def drop_writes(self) -> None:
        """There was nowhere to write."""

    async def compare(self, target: Target) -> SparkCompared:
        """Remove litter, refuse what does not belong to the task, see what is left.

        A no-op needs no branch, unless the policy decides by a tag and puts its empty commit there.
        """
        assert self.branch is not None, "read-only attempts stage nothing"
        ports, branch, workspace = target.ports, self.branch, target.workspace
        # A Spark task function holds keys that could write to the target itself: refused as well.
        await refuse_dirty_target(ports, workspace.repository, workspace.branch)
        sweep = BranchSweep(branch)
        swept = await sweep.uncommitted()
        head = await ports.lakefs.branches.head(workspace.repository, branch.name)
        if head.commit != workspace.ref:  # the body has committed on its branch itself
            await stage.refuse_unless_on_input(ports, workspace, head.commit)
            swept = await sweep.committed(await branch.commit())
        facts = {"changed": swept.changed, "deleted": swept.removed, "litter": swept.litter}
        ports.progress.phase(Phase.COMPARED, facts)
        if not swept.has_changes and not target.level.shape.decides_by_tag:
            await delete_staging(ports, workspace.repository, branch.name)
            self.attempt.leftovers.staging = None
        return SparkCompared(branch, sweep, swept.has_changes, self.returned.result)


async def run_on_spark(attempt: Attempt, target: Target | None) -> SparkRan:
    """Give the task function roots: the data stays in lakeFS, or in files where it is in memory.

    Before it come the attempt fence and the private branch: a stale attempt must not even make one.
    """
    ports, branch = attempt.ports, None
    # It holds the marker, so that gc finds the branch after a crash.
    attempt.leftovers.directory = directory = await ports.directories.create(attempt.marker)
    files = SparkFiles(attempt, directory) if ports.spark_gateway is None else None
    await _check_listing(attempt, attempt.workspace.ref, "pre")
    if target is not None:
        await check_attempt(attempt)
        branch = await stage.open_staging(target)
    roots = await _roots(attempt, None if branch is None else branch.name, files)
    returned = await call_body(attempt, roots)
    if files is not None and branch is not None:
        await files.store(branch)
    return SparkRan(attempt, branch, returned, files)


async def _roots(
    attempt: Attempt, branch: lakefs.BranchName | None, files: SparkFiles | None
) -> SparkRoots:
    workspace, output_root = attempt.workspace, None
    if files is not None:
        input_root, output_root = await files.fetch(writes=branch is not None)
    else:
        input_root = f"s3a://{workspace.repository}/{workspace.ref}/"
        if branch is not None:
            output_root = f"s3a://{workspace.repository}/{branch}/"
    return SparkRoots(
        repository=workspace.repository,
        input_ref=workspace.ref,
        prefix=attempt.spec.prefix,
        input_root=input_root,
        output_root=output_root,
        staging_branch=branch,
        gateway=attempt.ports.spark_gateway,
    )


async def _check_listing(attempt: Attempt, ref: str, phase: str) -> None:
    guardrails = attempt.spec.pre if phase == "pre" else attempt.spec.post
    if guardrails:
        repository, prefix = attempt.workspace.repository, attempt.spec.prefix
        paths = await list_workspace(attempt.ports, repository, ref, prefix)
        check_guardrails_on_listing(paths, guardrails, phase)
    done = Phase.PRE_CHECKED if phase == "pre" else Phase.POST_CHECKED
    attempt.ports.progress.phase(done, {"guardrails": len(guardrails)})
