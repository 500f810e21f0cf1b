"""One part of a large plan on its way up, and the same part checked afterwards.

Runs where an engine puts it, beside other parts; owns the loop of its own thread. Writing what
was written already changes nothing, so that a part may be done again.
"""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn, cast, final

from perago.adapters.local.staging_verification import check_entry, difference
from perago.adapters.local.staging_writes import StagingWrites
from perago.adapters.local.workspace_index import IndexedFile
from perago.domain.batches import batched
from perago.domain.key_ranges import LAST_CHARACTER, KeyRange
from perago.domain.prefix_projection import object_path
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.domain.workspace_rows import PlanKind, PlannedChange, SeenChange, WrittenBatch
from perago.ports.commits import Commits
from perago.ports.objects import LIST_AMOUNT_MAX, ObjectPage, Objects
from perago.ports.workspace_pipeline import StagingArea

WRITTEN_AT_ONCE = 1000
FIRST_AMOUNT = 8
AMOUNT_FACTOR = 4
_SURROGATES = range(0xD800, 0xE000)


@final
class PartUp:
    """Writes, lists changes and checks; holds nothing of any attempt."""

    def __init__(self, objects: Objects, commits: Commits, writes: StagingWrites) -> None:
        self._objects = objects
        self._commits = commits
        self._writes = writes

    def write(
        self, directory: Path, area: StagingArea, changes: Iterable[PlannedChange]
    ) -> Iterator[WrittenBatch]:
        """Bring changes onto the staging branch, some at a time."""
        with asyncio.Runner() as runner:
            for batch in batched(changes, WRITTEN_AT_ONCE):
                known = {row.path: _indexed(row) for row in batch if row.content_type is not None}
                plan = _plan_of(batch)
                counts = runner.run(self._writes.write(directory, known, plan, area))
                yield WrittenBatch(counts.objects, counts.bytes, counts.reused, counts.requests)

    def changes(self, area: StagingArea, part: KeyRange) -> Iterator[SeenChange]:
        """The uncommitted paths of one range."""
        after = part.after
        with asyncio.Runner() as runner:
            while True:
                page = runner.run(
                    self._commits.uncommitted_page(
                        area.staged.repository, area.staged.branch, after=after
                    )
                )
                mine = [change for change in page.changes if part.holds(change.path)]
                for change in mine:
                    yield SeenChange(change.path, change.kind.value)
                if not page.more or len(mine) < len(page.changes):
                    return
                after = page.changes[-1].path

    def check(self, area: StagingArea, rows: Iterable[PlannedChange]) -> None:
        """Raise for the first object that is not as written; the rows are in order of path.

        A page is as long as the last ones were worth it: neighbours share one, a lone object is
        asked for alone. An object that is not there is the business of the changes.
        """
        amount = FIRST_AMOUNT
        with asyncio.Runner() as runner:
            wanted = _wanted(area.prefix, rows)
            path, facts = next(wanted, ("", None))
            while facts is not None:
                page = runner.run(self._page(area, path, amount))
                found = {entry.path: entry for entry in page.entries}
                last = page.entries[-1].path if page.entries and page.more else LAST_CHARACTER
                hits = 0
                while facts is not None and path <= last:
                    if path in found:
                        check_entry(area, facts, found[path])
                    hits += 1
                    path, facts = next(wanted, ("", None))
                amount = _next_amount(amount, hits)

    def refuse_difference(
        self, area: StagingArea, path: str, expected: str | None, found: str | None
    ) -> NoReturn:
        """Raise for a path that did not become what was planned."""
        raise difference(area, path, expected, found)

    async def _page(self, area: StagingArea, path: str, amount: int) -> ObjectPage:
        return await self._objects.list_page(
            area.staged.repository,
            area.staged.branch,
            prefix="",
            after=_just_before(path),
            amount=amount,
        )


def _next_amount(amount: int, hits: int) -> int:
    if hits > 1:
        return min(LIST_AMOUNT_MAX, amount * AMOUNT_FACTOR)
    return max(1, amount // AMOUNT_FACTOR)


def _just_before(path: str) -> str:
    """A text before a path with hardly anything between the two."""
    code = ord(path[-1]) - 1
    if code < 0:
        return path[:-1]
    if code in _SURROGATES:
        code = _SURROGATES.start - 1
    return f"{path[:-1]}{chr(code)}{LAST_CHARACTER}"


def _wanted(prefix: str, rows: Iterable[PlannedChange]) -> Iterator[tuple[str, FileFacts]]:
    for row in rows:
        yield object_path(prefix, row.path), _facts(row)


def _plan_of(batch: list[PlannedChange]) -> SyncPlan:
    return SyncPlan(
        upload=tuple(_facts(row) for row in batch if row.kind == PlanKind.UPLOAD),
        copy=tuple(
            (_facts(row), cast("str", row.source)) for row in batch if row.kind == PlanKind.COPY
        ),
        delete=tuple(row.path for row in batch if row.kind == PlanKind.DELETE),
    )


def _facts(row: PlannedChange) -> FileFacts:
    return FileFacts(row.path, row.md5 or "", row.size or 0)


def _indexed(row: PlannedChange) -> IndexedFile:
    return IndexedFile(_facts(row), row.content_type or "", row.metadata or {})
