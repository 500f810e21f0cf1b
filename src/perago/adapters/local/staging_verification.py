"""Whether a staging branch differs from its start by exactly the plan.

Asks for the uncommitted paths, then for the objects that were written, in windows of the listing:
never more windows than objects were written, nor many more than the listing has pages.
"""

from collections.abc import Sequence
from typing import final

from perago.domain.listing_windows import ListingWindow, windows
from perago.domain.object_checksum import md5_of_checksum
from perago.domain.prefix_projection import object_path
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.ports.commits import ChangeKind, Commits
from perago.ports.concurrency import Concurrency
from perago.ports.errors import DamagedObjectError
from perago.ports.objects import LIST_AMOUNT_MAX, ObjectEntry, Objects
from perago.ports.workspace_pipeline import StagingArea

WINDOW_LANES_MAX = 8


@final
class StagingVerification:
    """Compares a branch with a plan; changes nothing."""

    def __init__(self, objects: Objects, commits: Commits, concurrency: Concurrency) -> None:
        self._objects = objects
        self._commits = commits
        self._concurrency = concurrency

    async def check(self, base: Sequence[str], plan: SyncPlan, area: StagingArea) -> None:
        """Raise DamagedObjectError for the first path that is not as planned."""
        written = {
            object_path(area.prefix, facts.path): facts
            for facts in (*plan.upload, *(facts for facts, _ in plan.copy))
        }
        after = set(base).difference(plan.delete)
        after.update(facts.path for facts in plan.upload)
        after.update(facts.path for facts, _ in plan.copy)
        tree = sorted(object_path(area.prefix, path) for path in after)
        asked = windows(tree, sorted(written), amount_max=LIST_AMOUNT_MAX)
        await self._concurrency.together(
            self._check_paths(base, plan, area),
            self._check_contents(written, asked, area),
        )

    async def _check_paths(self, base: Sequence[str], plan: SyncPlan, area: StagingArea) -> None:
        expected = _expected_changes(set(base), plan, area.prefix)
        found: dict[str, ChangeKind] = {}
        after = ""
        while True:
            page = await self._commits.uncommitted_page(
                area.staged.repository, area.staged.branch, after=after
            )
            found.update((change.path, change.kind) for change in page.changes)
            if not page.more:
                break
            after = page.changes[-1].path
        for path in sorted(expected.keys() | found.keys()):
            if expected.get(path) != found.get(path):
                raise difference(area, path, expected.get(path), found.get(path))

    async def _check_contents(
        self, written: dict[str, FileFacts], asked: Sequence[ListingWindow], area: StagingArea
    ) -> None:
        async def check_window(window: ListingWindow) -> None:
            for entry in await self._window(window, area):
                facts = written.get(entry.path)
                if facts is not None:
                    check_entry(area, facts, entry)

        await self._concurrency.each(asked, check_window, at_most=WINDOW_LANES_MAX)

    async def _window(self, window: ListingWindow, area: StagingArea) -> list[ObjectEntry]:
        entries: list[ObjectEntry] = []
        after = window.after
        while True:
            page = await self._objects.list_page(
                area.staged.repository,
                area.staged.branch,
                prefix=window.prefix,
                after=after,
                amount=window.amount,
            )
            entries.extend(page.entries)
            if not page.more or page.entries[-1].path >= window.last:
                return entries
            after = page.entries[-1].path


def _expected_changes(base: set[str], plan: SyncPlan, prefix: str) -> dict[str, ChangeKind]:
    expected = {object_path(prefix, path): ChangeKind.REMOVED for path in plan.delete}
    for facts in (*plan.upload, *(facts for facts, _ in plan.copy)):
        kind = ChangeKind.CHANGED if facts.path in base else ChangeKind.ADDED
        expected[object_path(prefix, facts.path)] = kind
    return expected


def check_entry(area: StagingArea, facts: FileFacts, entry: ObjectEntry) -> None:
    """Raise unless an object of the staging branch is the file that was planned."""
    md5 = md5_of_checksum(entry.checksum) or facts.checksum
    if (entry.size, md5) != (facts.size, facts.checksum):
        raise difference(area, entry.path, facts.checksum, md5)


def difference(area: StagingArea, path: str, expected: object, found: object) -> DamagedObjectError:
    """The error for a path that did not become what was planned."""
    return DamagedObjectError(
        f"staging branch {area.staged.branch} is not what was planned at {path!r}: expected"
        f" {expected or 'no change'}, found {found or 'no change'}; nothing was published"
    )
