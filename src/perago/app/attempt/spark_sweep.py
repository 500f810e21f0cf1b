"""After a Spark body: what is on the private branch, what is litter, what should not be there.

A file of our commit protocol counts only when the manifest of its job names it: a task that lost
a race, or whose executor died, may have written one at any time before this.

Bounded in memory: changes are read page by page, only the first offending names are kept.
"""

from dataclasses import dataclass, field

from perago.app.attempt.world import World
from perago.domain.errors import PublicationRefusedError
from perago.domain.job_litter import is_foreign_write, is_job_litter
from perago.domain.prefix_projection import listing_prefix
from perago.domain.references import BranchName, RepositoryId, WorkspaceReference
from perago.domain.reserved_paths import is_reserved_object
from perago.domain.spark_errors import PATHS_NAMED_MAX, OutsidePrefixError
from perago.domain.spark_manifest import JobFiles, manifest_job, parse_manifest
from perago.ports.commits import Change, ChangeKind
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

    def count(self, change: Change, prefix: str) -> None:
        """Take one change that is no litter; of the foreign ones only the first are kept."""
        if is_foreign_write(change.path, prefix):
            if len(self.foreign) <= PATHS_NAMED_MAX:
                self.foreign.append(change.path)
        elif change.kind is ChangeKind.REMOVED:
            self.removed += 1
        else:
            self.changed += 1


async def sweep(world: World, repository: RepositoryId, branch: BranchName, prefix: str) -> Swept:
    """Delete litter, count changes; raise OutsidePrefixError when any is foreign.

    Litter that the input commit has already is left as the body left it.
    """
    swept, litter, jobs = Swept(), list[str](), JobFiles()
    after = ""
    for _ in range(PAGES_MAX):
        page = await world.lakefs.commits.uncommitted_page(repository, branch, after=after)
        for change in page.changes:
            added = change.kind is ChangeKind.ADDED
            if added and is_job_litter(change.path):
                litter.append(change.path)
            elif not (added and jobs.take(change.path)):
                swept.count(change, prefix)
        if len(litter) > LITTER_KEPT_MAX or not page.more:
            await _delete(world, repository, branch, litter)
            swept.litter += len(litter)
            litter = []
        if not page.more:
            break
        after = page.changes[-1].path
    await _settle_jobs(world, repository, branch, jobs, swept, prefix)
    if swept.foreign:
        raise OutsidePrefixError(prefix, swept.foreign)
    return swept


async def _settle_jobs(
    world: World,
    repository: RepositoryId,
    branch: BranchName,
    jobs: JobFiles,
    swept: Swept,
    prefix: str,
) -> None:
    """Keep what manifests name; delete the rest and the manifests themselves."""
    committed: dict[str, frozenset[str]] = {}
    for job, path in jobs.manifests.items():
        content = await world.lakefs.objects.read(repository, branch, path)
        committed[job] = parse_manifest(content)
    losers = list(jobs.losers(committed))
    lost = set(losers)
    for paths in jobs.files.values():
        for path in paths:
            if path not in lost:
                swept.count(Change(path, ChangeKind.ADDED), prefix)
    rest = [*losers, *jobs.manifests.values()]
    await _delete(world, repository, branch, rest)
    swept.litter += len(rest)


async def _delete(
    world: World, repository: RepositoryId, branch: BranchName, paths: list[str]
) -> None:
    for start in range(0, len(paths), DELETE_PATHS_MAX):
        batch = paths[start : start + DELETE_PATHS_MAX]
        await world.lakefs.objects.delete_many(repository, branch, batch)


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
