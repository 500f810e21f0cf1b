"""The workspace pipeline as Spark jobs: for workspaces that one process should not move.

Workers and executors share the file system of the workspaces. The driver keeps totals and the
paths of tables; listings, indexes and plans stay in the tables. The jobs on the way down are here:
listings are cut into ranges of keys and asked for by the executors. Those on the way up are in
`plan`. `SizedPipeline` takes the local pipeline for workspaces that are small.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, final

from perago.adapters.spark.parts import OpenPartWork, folders_of, key_finder, workspace_identity
from perago.adapters.spark.pipeline_session import (
    PipelineSession,
    PipelineSessions,
    PipelineState,
)
from perago.adapters.spark.plan import (
    Index,
    WrittenPlan,
    check_branch,
    compare,
    write_changes,
    write_plan,
)
from perago.adapters.spark.rows import (
    KeptRows,
    file_name,
    portions,
    read_rows,
    table,
    write_rows,
)
from perago.adapters.spark.session import SparkConfiguration
from perago.adapters.workspace.changes import lost_workspace, unknown_workspace
from perago.adapters.workspace.disk import name_rules
from perago.adapters.workspace.inventory import WorkspaceTooLargeError, name_clash
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.domain.key_ranges import KeyRange, cut_keys
from perago.domain.paths import NameRules, listing_prefix
from perago.domain.sync_plan import ListedObject, SyncPlan, batched
from perago.ports.errors import disk_errors
from perago.ports.objects import Objects
from perago.ports.system import Concurrency
from perago.ports.workspace import (
    Materialised,
    StagingArea,
    TransferCounts,
    WorkspacePipeline,
    WorkspaceSource,
)

# Parts are dealt out by weight. A small object costs its request and hardly its bytes (below 64 KiB
# it costs less than a hand-over between threads, ADR 6), so each counts for that much in addition.
BYTES_WORTH_AN_OBJECT = 64 * 1024
# Rows of a file of the index: they are in memory until it is written. As many as a part has at most
# (ROWS_PER_PART), so that a part is one file.
PLACED_AT_ONCE = 20_000


@dataclass(slots=True)
class _Workspace:
    """What the driver keeps of one workspace."""

    state: PipelineState
    identity: tuple[int, int]
    index: Index
    written: WrittenPlan | None = None

    def refuse_another(self, directory: Path) -> None:
        """Raise unless a directory is still the one that was filled."""
        if workspace_identity(directory) != self.identity:
            raise lost_workspace(directory)


@final
class SparkWorkspacePipeline(WorkspacePipeline):
    """Workspaces moved by the Spark of this process."""

    def __init__(
        self,
        configuration: SparkConfiguration,
        objects: Objects,
        open_work: OpenPartWork,
        concurrency: Concurrency,
        *,
        state_root: Path,
    ) -> None:
        self._objects = objects
        self._concurrency = concurrency
        self._sessions = PipelineSessions(configuration, open_work, concurrency)
        self._state_root = state_root
        self._workspaces: dict[Path, _Workspace] = {}

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        wanted = await self._sessions.run("start", lambda session: session.parts)
        ranges = await cut_listing(self._objects, source, wanted)
        state = PipelineState(self._state_root, directory)
        workspace, counts = await self._sessions.run(
            f"materialise {source.repository}",
            lambda session: self._fill(session, source, ranges, directory, state),
        )
        self._workspaces[directory] = workspace
        return Materialised(source, directory, counts)

    async def plan(self, materialised: Materialised) -> SyncPlan:
        workspace = self._workspace(materialised)
        workspace.written = await self._sessions.run(
            f"compare {materialised.directory.name}",
            lambda session: self._compare(session, materialised, workspace),
        )
        return workspace.written.plan

    async def transfer(
        self, materialised: Materialised, plan: SyncPlan, area: StagingArea
    ) -> TransferCounts:
        state, written = self._planned(materialised, plan)
        if plan.is_empty:
            return TransferCounts()
        return await self._sessions.run(
            f"stage {materialised.directory.name}",
            lambda session: write_changes(
                session, written, state.plan, materialised.directory, area
            ),
            changes_lakefs=True,
        )

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        state, written = self._planned(materialised, plan)
        await self._sessions.run(
            f"verify {area.staged.branch}",
            lambda session: check_branch(session, written, state.plan, area),
        )

    async def forget(self, materialised: Materialised) -> None:
        workspace = self._workspaces.pop(materialised.directory, None)
        if workspace is not None:
            await self._concurrency.blocking(workspace.state.remove)

    async def describe(self, materialised: Materialised) -> None:
        """Its tables are of one Spark session, which ends with its process."""

    async def reopen(
        self, source: WorkspaceSource, directory: Path, described: str
    ) -> Materialised:
        """No description was ever made."""
        del source, described
        raise unknown_workspace(directory)

    def _fill(
        self,
        session: PipelineSession,
        source: WorkspaceSource,
        ranges: list[KeyRange],
        directory: Path,
        state: PipelineState,
    ) -> tuple[_Workspace, TransferCounts]:
        state.create()
        try:
            with disk_errors(directory):
                rules = name_rules(directory)
            inventory = take_inventory(session, source, ranges, state, rules)
            if rules.folds_case or rules.folds_unicode:
                _refuse_folded_names(session, source, state)
            index = fetch_files(session, source, inventory, directory, state)
            state.close_incoming()
        except BaseException:
            state.remove()
            raise
        counts = TransferCounts(
            objects=index.objects,
            bytes=index.bytes,
            requests=len(ranges) + index.objects,
        )
        return _Workspace(state, workspace_identity(directory), index), counts

    def _compare(
        self, session: PipelineSession, materialised: Materialised, workspace: _Workspace
    ) -> WrittenPlan:
        directory = materialised.directory
        workspace.refuse_another(directory)
        folders = folders_of(directory, session.parts)
        compared = compare(session, workspace.index, directory, folders)
        plan = write_plan(session, materialised, workspace.index, compared, workspace.state)
        workspace.refuse_another(directory)
        return plan

    def _workspace(self, materialised: Materialised) -> _Workspace:
        workspace = self._workspaces.get(materialised.directory)
        if workspace is None:
            raise unknown_workspace(materialised.directory)
        return workspace

    def _planned(
        self, materialised: Materialised, plan: SyncPlan
    ) -> tuple[PipelineState, WrittenPlan]:
        workspace = self._workspace(materialised)
        assert workspace.written is not None
        assert workspace.written.plan is plan, "the last plan made here"
        return workspace.state, workspace.written


@final
class SizedPipeline(WorkspacePipeline):
    """The local pipeline up to a number of objects, another one above.

    The size of a workspace is known only when it is listed. So the local pipeline lists, and gives
    up at its bound before anything moves. Every later step goes to the pipeline that materialised.
    """

    def __init__(
        self, local: LocalWorkspacePipeline, large: WorkspacePipeline, *, objects_max: int
    ) -> None:
        local.refuse_more_than(objects_max)
        self._local = local
        self._large = large
        self._by_large: set[Path] = set()

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        self._by_large.discard(directory)
        try:
            return await self._local.materialise(source, directory)
        except WorkspaceTooLargeError:
            materialised = await self._large.materialise(source, directory)
            self._by_large.add(directory)
            return materialised

    async def plan(self, materialised: Materialised) -> SyncPlan:
        return await self._of(materialised).plan(materialised)

    async def transfer(
        self, materialised: Materialised, plan: SyncPlan, area: StagingArea
    ) -> TransferCounts:
        return await self._of(materialised).transfer(materialised, plan, area)

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        await self._of(materialised).verify(materialised, plan, area)

    async def forget(self, materialised: Materialised) -> None:
        await self._of(materialised).forget(materialised)
        self._by_large.discard(materialised.directory)

    async def describe(self, materialised: Materialised) -> str | None:
        return await self._of(materialised).describe(materialised)

    async def reopen(
        self, source: WorkspaceSource, directory: Path, described: str
    ) -> Materialised:
        self._by_large.discard(directory)
        return await self._local.reopen(source, directory, described)

    def _of(self, materialised: Materialised) -> WorkspacePipeline:
        return self._large if materialised.directory in self._by_large else self._local


def _refuse_folded_names(
    session: PipelineSession, source: WorkspaceSource, state: PipelineState
) -> None:
    """Raise for two names that the disk takes for one; only a join over all ranges finds them."""
    clash = find_clash(table(session.session, state.inventory, ListedObject))
    if clash is not None:
        raise name_clash(source.repository, *clash)


async def cut_listing(objects: Objects, source: WorkspaceSource, wanted: int) -> list[KeyRange]:
    """Ranges of keys that are listed apart; one for what fits on a page."""
    prefix = listing_prefix(source.prefix)
    first = await objects.list_page(source.repository, source.commit, prefix=prefix)
    if not first.more:
        return [KeyRange("", None)]
    return await cut_keys(key_finder(objects, source), prefix, wanted)


def take_inventory(
    session: PipelineSession,
    source: WorkspaceSource,
    ranges: list[KeyRange],
    state: PipelineState,
    rules: NameRules,
) -> list[KeptRows]:
    """List every range on the executors, and check its names by the rules of the disk."""
    state.inventory.mkdir()
    work = partial(_list_range, session.open_work, source, rules, state.inventory)
    return session.spread(list(enumerate(ranges)), work, KeptRows)


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
    placed = session.spread(names, work, KeptRows, len(names))
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
    rules: NameRules,
    folder: Path,
    numbered: tuple[int, KeyRange],
) -> Iterator[KeptRows]:
    number, part = numbered
    rows = open_work().list_range(source, rules, part)
    for count, portion in enumerate(portions(rows)):
        name = file_name(number, count)
        write_rows(folder, name, portion)
        yield KeptRows(name, len(portion), sum(row.size for row in portion))


def _fetch(
    open_work: OpenPartWork,
    source: WorkspaceSource,
    directory: Path,
    state: PipelineState,
    names: list[str],
) -> Iterator[KeptRows]:
    lines = chain.from_iterable(read_rows(state.inventory, name) for name in names)
    rows = (ListedObject(**line) for line in lines)
    placed = open_work().fetch(source, directory, state.incoming, rows)
    for count, portion in enumerate(batched(placed, PLACED_AT_ONCE)):
        name = f"{count}-{names[0]}"
        write_rows(state.index, name, portion)
        newest = max(row.ctime_ns for row in portion)
        yield KeptRows(name, len(portion), sum(row.size for row in portion), newest)
