"""What changed since the last publication of a task, for `current_attempt().changes()`.

The parent asks, because executors have no keys. It reads commits and one difference, and downloads
nothing.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing

from perago.app.attempt.context import Attempt, AttemptPorts
from perago.domain.last_publication import PublishingTask, run_inside
from perago.domain.logical_execution import CommitId, CommitRecord, WorkspaceReference
from perago.domain.paths import is_reserved_object, listing_prefix
from perago.ports.asking import all_changes
from perago.ports.lakefs import ChangeKind
from perago.ports.task_body import ChangedPaths

COMMITS_PAGE = 1000  # in one answer: the most that lakeFS gives
# 10,000 commits of the branch. A task that published before them computes everything once more.
COMMIT_PAGES_MAX = 10
# Merged runs that are looked into, a request each, while the task function waits. A task that
# published in none of the newest 20 computes everything once more.
RUNS_MAX = 20
# As many paths of usual length fit into one message to an executor. Where more have changed, to
# compute everything costs little more.
PATHS_MAX = 100_000


async def changes_since_publication(
    ports: AttemptPorts, attempt: Attempt, workspace: WorkspaceReference
) -> ChangedPaths | None:
    """The difference between the last publication and the input; None where all has to be done."""
    spec = attempt.task.workspace
    assert spec is not None, "only workspace tasks ask"
    task = PublishingTask(attempt.row.task_type, attempt.row.reference_name, spec.prefix)
    published = await _last_publication(ports, task, workspace)
    if published is None:
        return None
    outer = listing_prefix(spec.prefix)
    found: dict[ChangeKind, list[str]] = {kind: [] for kind in ChangeKind}
    number = 0
    listed = all_changes(
        ports.lakefs.commits, workspace.repository, published.commit, workspace.ref, outer
    )
    async with aclosing(listed):
        async for change in listed:
            if is_reserved_object(change.path):
                continue
            number += 1
            if number > PATHS_MAX:
                return None
            found[change.kind].append(change.path.removeprefix(outer))
    return ChangedPaths(
        published.commit,
        tuple(found[ChangeKind.ADDED]),
        tuple(found[ChangeKind.CHANGED]),
        tuple(found[ChangeKind.REMOVED]),
    )


async def _last_publication(
    ports: AttemptPorts, task: PublishingTask, workspace: WorkspaceReference
) -> CommitRecord | None:
    """Down the history of the input; a merged run is looked into where it stands."""
    runs = 0
    async for record in _history(ports, workspace):
        if task.made(record):
            return record
        inside = run_inside(record)
        if inside is None:
            continue
        runs += 1
        if runs > RUNS_MAX:
            return None
        walk = await ports.lakefs.commits.first_parents(
            workspace.repository, inside, record.parents[0], commits_max=COMMITS_PAGE
        )
        found = task.last_of(walk.above)
        if found is not None:
            return found
    return None


async def _history(
    ports: AttemptPorts, workspace: WorkspaceReference
) -> AsyncIterator[CommitRecord]:
    """The input and its first parents, newest first."""
    start: CommitId | None = workspace.ref
    for _ in range(COMMIT_PAGES_MAX):
        if start is None:
            return
        walk = await ports.lakefs.commits.first_parents(
            workspace.repository, start, None, commits_max=COMMITS_PAGE
        )
        for record in walk.commits:
            yield record
        parents = walk.commits[-1].parents
        start = parents[0] if walk.truncated and parents else None
