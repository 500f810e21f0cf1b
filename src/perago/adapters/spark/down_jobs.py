"""The jobs on the way down: what a commit holds, whether one directory can hold it, its files.

Listings are cut into ranges of keys and asked for by the executors; the driver sees totals.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from perago.adapters.spark.parts import OpenPartWork
from perago.adapters.spark.pipeline_session import PipelineSession, PipelineState
from perago.adapters.spark.rows import (
    KeptRows,
    ending_with_problem,
    file_name,
    gathered,
    portions,
    read_rows,
    write_rows,
)
from perago.domain.key_ranges import KeyRange, cut_keys
from perago.domain.paths import NameRules, listing_prefix
from perago.domain.sync_plan import ListedObject, batched
from perago.ports.objects import Objects
from perago.ports.workspace import WorkspaceSource

# Parts are dealt out by weight. A small object costs its request and hardly its bytes (below 64 KiB
# it costs less than a hand-over between threads, ADR 6), so each counts for that much in addition.
BYTES_WORTH_AN_OBJECT = 64 * 1024
# Rows of a file of the index: they are in memory until it is written. As many as a part has at most
# (ROWS_PER_PART), so that a part is one file.
PLACED_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class Index:
    """What was materialised: where its table stands, and how much it is."""

    folder: Path
    objects: int
    bytes: int
    newest_ctime_ns: int


async def cut_listing(objects: Objects, source: WorkspaceSource, wanted: int) -> list[KeyRange]:
    """Ranges of keys that are listed apart; one for what fits on a page."""
    prefix = listing_prefix(source.prefix)

    async def next_key(after: str) -> str | None:
        page = await objects.list_page(
            source.repository, source.commit, prefix=prefix, after=after, amount=1
        )
        return page.entries[0].path if page.entries else None

    first = await objects.list_page(source.repository, source.commit, prefix=prefix)
    if not first.more:
        return [KeyRange("", None)]
    return await cut_keys(next_key, prefix, wanted)


def take_inventory(
    session: PipelineSession,
    source: WorkspaceSource,
    ranges: list[KeyRange],
    folder: Path,
    rules: NameRules | None,
) -> list[KeptRows]:
    """List every range on the executors; with rules, names are checked by them."""
    folder.mkdir(parents=True)
    work = partial(_list_range, session.open_work, source, rules, folder)
    return gathered(session.spread(list(enumerate(ranges)), work), KeptRows)


def find_clash(inventory: Any) -> tuple[str, str] | None:  # noqa: ANN401 - a frame
    """Two names that the disk takes for one, or None."""
    names = inventory.select("path", "folded")
    folders = inventory.selectExpr("explode(folders) AS (folder, folded)")
    clashes = names.join(folders, "folded").selectExpr("path AS one", "folder AS other")
    for frame, name in ((names, "path"), (folders.distinct(), "folder")):
        least = f"min({name})"
        twice = frame.groupBy("folded").agg({name: "min", "*": "count"}).where("`count(1)` > 1")
        other = frame.join(twice, "folded").where(f"{name} <> `{least}`")
        clashes = clashes.union(other.selectExpr(f"`{least}` AS one", f"{name} AS other"))
    (found,) = clashes.selectExpr("min(struct(one, other)) AS first").collect()
    return None if found["first"] is None else (found["first"]["one"], found["first"]["other"])


def fetch_files(
    session: PipelineSession,
    source: WorkspaceSource,
    inventory: list[KeptRows],
    directory: Path,
    state: PipelineState,
) -> Index:
    """Bring every object of the inventory to its file; the table of stamps is the index."""
    state.index.mkdir()
    parts = session.parts_for(
        sum(part.objects for part in inventory), sum(part.bytes for part in inventory)
    )
    largest_first = sorted(inventory, key=_weight, reverse=True)
    dealt = [hand for hand in (largest_first[start::parts] for start in range(parts)) if hand]
    work = partial(_fetch, session.open_work, source, directory, state)
    names = [[part.name for part in hand] for hand in dealt]
    placed = gathered(session.spread(names, work, parts=len(names)), KeptRows)
    return Index(
        state.index,
        sum(part.objects for part in placed),
        sum(part.bytes for part in placed),
        max((part.newest_ctime_ns for part in placed), default=0),
    )


def _weight(part: KeptRows) -> int:
    return part.bytes + part.objects * BYTES_WORTH_AN_OBJECT


def _list_range(
    open_work: OpenPartWork,
    source: WorkspaceSource,
    rules: NameRules | None,
    folder: Path,
    numbered: tuple[int, KeyRange],
) -> Iterator[KeptRows]:
    number, part = numbered

    def keep() -> Iterator[KeptRows]:
        rows = open_work().down.list_range(source, rules, part)
        for count, portion in enumerate(portions(rows)):
            name = file_name(number, count)
            write_rows(folder, name, portion)
            yield KeptRows(name, len(portion), sum(row.size for row in portion))

    return ending_with_problem(keep(), lambda problem: KeptRows("", problem=problem))


def _fetch(
    open_work: OpenPartWork,
    source: WorkspaceSource,
    directory: Path,
    state: PipelineState,
    names: list[str],
) -> Iterator[KeptRows]:
    def keep() -> Iterator[KeptRows]:
        lines = chain.from_iterable(read_rows(state.inventory, name) for name in names)
        rows = (ListedObject(**line) for line in lines)
        placed = open_work().down.fetch(source, directory, state.incoming, rows)
        for count, portion in enumerate(batched(placed, PLACED_AT_ONCE)):
            name = f"{count}-{names[0]}"
            write_rows(state.index, name, portion)
            newest = max(row.ctime_ns for row in portion)
            yield KeptRows(name, len(portion), sum(row.size for row in portion), newest)

    return ending_with_problem(keep(), lambda problem: KeptRows("", problem=problem))
