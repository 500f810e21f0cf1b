"""The workspace pipeline as Spark jobs: for workspaces that one process should not move.

Workers and executors share the file system of the workspaces. The driver keeps totals and the
paths of tables; listings, indexes and plans stay in the tables. Joins the jobs; each of them
decides for itself.
"""

import shutil
import tempfile
import weakref
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import final

from perago.adapters.spark.down_jobs import (
    Index,
    cut_listing,
    fetch_files,
    find_clash,
    take_inventory,
)
from perago.adapters.spark.parts import OpenPartWork
from perago.adapters.spark.pipeline_session import PipelineSession, PipelineSessions, PipelineState
from perago.adapters.spark.plan_parts import WrittenPlan, compare, write_plan
from perago.adapters.spark.rows import ManifestRows, path_of, table
from perago.adapters.spark.session import SparkConfiguration
from perago.adapters.spark.up_jobs import check_branch, write_changes
from perago.adapters.workspace.changes import unknown_workspace
from perago.adapters.workspace.inventory import WorkspaceTooLargeError, name_clash
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.domain.key_ranges import KeyRange
from perago.domain.sync_plan import ListedObject, SyncPlan
from perago.ports.objects import Objects
from perago.ports.system import Concurrency
from perago.ports.workspace import (
    Materialised,
    StagingArea,
    TransferCounts,
    WorkspacePipeline,
    WorkspaceSource,
)


@dataclass(slots=True)
class _Workspace:
    """What the driver keeps of one workspace."""

    state: PipelineState
    identity: tuple[int, int]
    index: Index
    written: WrittenPlan | None = None


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
        self._open_work = open_work
        self._concurrency = concurrency
        self._sessions = PipelineSessions(configuration, open_work, concurrency)
        self._state_root = state_root
        self._workspaces: dict[Path, _Workspace] = {}

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        ranges = await self._ranges(source)
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

    async def listing(self, source: WorkspaceSource) -> Collection[str]:
        ranges = await self._ranges(source)
        return await self._sessions.run(
            f"list {source.repository}",
            lambda session: self._list(session, source, ranges),
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

    async def _ranges(self, source: WorkspaceSource) -> list[KeyRange]:
        wanted = await self._sessions.run("start", lambda session: session.parts)
        return await cut_listing(self._objects, source, wanted)

    def _fill(
        self,
        session: PipelineSession,
        source: WorkspaceSource,
        ranges: list[KeyRange],
        directory: Path,
        state: PipelineState,
    ) -> tuple[_Workspace, TransferCounts]:
        work = self._open_work()
        state.create()
        try:
            rules = work.scan.rules(directory)
            inventory = take_inventory(session, source, ranges, state.inventory, rules)
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
        return _Workspace(state, work.scan.identity(directory), index), counts

    def _compare(
        self, session: PipelineSession, materialised: Materialised, workspace: _Workspace
    ) -> WrittenPlan:
        scan, directory = self._open_work().scan, materialised.directory
        scan.refuse_another(directory, workspace.identity)
        folders = scan.folders(directory, session.parts)
        compared = compare(session, workspace.index, directory, folders)
        plan = write_plan(session, materialised, workspace.index, compared, workspace.state)
        scan.refuse_another(directory, workspace.identity)
        return plan

    def _list(
        self, session: PipelineSession, source: WorkspaceSource, ranges: list[KeyRange]
    ) -> Collection[str]:
        self._state_root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self._state_root, prefix=".listing-"))
        listed = take_inventory(session, source, ranges, folder / "paths", None)
        paths = ManifestRows(folder / "paths", sum(part.objects for part in listed), path_of)
        weakref.finalize(paths, shutil.rmtree, folder, ignore_errors=True)
        return paths

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


def _refuse_folded_names(
    session: PipelineSession, source: WorkspaceSource, state: PipelineState
) -> None:
    """Raise for two names that the disk takes for one; only a join over all ranges finds them."""
    clash = find_clash(table(session.session, state.inventory, ListedObject))
    if clash is not None:
        raise name_clash(source.repository, *clash)


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

    async def listing(self, source: WorkspaceSource) -> Collection[str]:
        return await self._local.listing(source)

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
