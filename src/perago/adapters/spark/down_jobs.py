"""The jobs on the way down: what a commit holds, whether one directory can hold it, its files.

Listings are cut into ranges of keys and asked for by the executors; the driver sees totals.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from perago.adapters.spark.part_work import OpenPartWork
from perago.adapters.spark.pipeline_session import PipelineSession, spread_rows
from perago.adapters.spark.pipeline_state import PipelineState
from perago.adapters.spark.row_frames import Kept, keep
from perago.adapters.spark.row_problems import told
from perago.domain.key_ranges import KeyRange, cut_keys
from perago.domain.prefix_projection import NameRules, listing_prefix
from perago.domain.workspace_rows import ListedObject, PlacedFile
from perago.ports.objects import Objects
from perago.ports.workspace_pipeline import WorkspaceSource


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
    place: Path,
    rules: NameRules | None,
) -> Kept:
    """List every range on the executors; with rules, names are checked by them."""
    rows = session.spread(ranges, partial(_list_range, session.open_work, source, rules))
    return keep(session.session, rows, ListedObject, place)


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
    inventory: Kept,
    directory: Path,
    state: PipelineState,
) -> Kept:
    """Bring every object of the inventory to its file; the table of stamps is the index."""
    parts = session.parts_for(inventory.objects, inventory.bytes)
    rows = spread_rows(inventory.frame, parts).rdd.mapPartitions(
        partial(_fetch, session.open_work, source, directory, state.landing)
    )
    return keep(session.session, rows, PlacedFile, state.index)


def _list_range(
    open_work: OpenPartWork, source: WorkspaceSource, rules: NameRules | None, part: KeyRange
) -> Iterator[ListedObject]:
    rows = open_work().down.list_range(source, rules, part)
    return told(rows, lambda problem: ListedObject("", problem=problem))


def _fetch(
    open_work: OpenPartWork,
    source: WorkspaceSource,
    directory: Path,
    landing: Path,
    rows: Iterable[Any],
) -> Iterator[PlacedFile]:
    listed = (ListedObject(*row) for row in rows)
    placed = open_work().down.fetch(source, directory, landing, listed)
    return told(placed, lambda problem: PlacedFile("", problem=problem))
