"""After a Spark body: what is on the private branch, what is litter, what should not be there.

A file of our commit protocol counts only when the manifest of its job names it: a task that lost
a race, or whose executor died, may have written one at any time before this.

Bounded in memory: changes are read page by page, only the first offending names are kept.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from perago.app.attempt.world import World
from perago.domain.errors import PublicationRefusedError
from perago.domain.job_litter import is_foreign_write, is_job_litter
from perago.domain.prefix_projection import listing_prefix
from perago.domain.references import BranchName, CommitId, RepositoryId, WorkspaceReference
from perago.domain.reserved_paths import is_reserved_object
from perago.domain.spark_errors import PATHS_NAMED_MAX, OutsidePrefixError
from perago.domain.spark_manifest import JobFiles, manifest_job, parse_manifest
from perago.ports.commits import Change, ChangeKind, ChangePage
from perago.ports.objects import DELETE_PATHS_MAX

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
