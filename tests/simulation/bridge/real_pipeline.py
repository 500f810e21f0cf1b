"""The transfers of a held process on a real lakeFS; each is one stop, whatever it asks."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, cast, final

from tests.contract.real_lakefs import RealLakeFS
from tests.simulation.steering import PortCall, SteeredHandle
from tests.simulation.workspace import Disk, Files, facts_of

from perago.domain.sync_plan import SyncPlan, plan_sync
from perago.ports.errors import DamagedObjectError
from perago.ports.workspace import (
    Materialised,
    StagingArea,
    TransferCounts,
    WorkspacePipeline,
    WorkspaceSource,
)

Result = TypeVar("Result")


@final
class RealPipeline(WorkspacePipeline):
    """As `SimulatedPipeline`, object by object over HTTP."""

    def __init__(self, lakefs: RealLakeFS, handle: SteeredHandle, disk: Disk) -> None:
        self._lakefs, self._handle, self._disk = lakefs, handle, disk
        self._read: dict[Path, Files] = {}

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        """Read the objects under the prefix."""
        files = await self._stop("pipeline.materialise", lambda: self._under(source))
        self._disk.files[directory] = dict(files)
        self._read[directory] = files
        return Materialised(source, directory, TransferCounts(objects=len(files)))

    async def plan(self, materialised: Materialised) -> SyncPlan:
        """Compare with what was read."""
        directory = materialised.directory
        return plan_sync(facts_of(self._read[directory]), facts_of(self._disk.files[directory]))

    async def transfer(
        self, materialised: Materialised, plan: SyncPlan, area: StagingArea
    ) -> TransferCounts:
        """Write and delete on the staging branch."""
        files = self._disk.files[materialised.directory]
        writes = {facts.path: files[facts.path] for facts in plan.upload}
        writes |= {target.path: files[target.path] for target, _ in plan.copy}
        place = area.staged

        async def move() -> TransferCounts:
            for path, content in writes.items():
                target = f"{area.prefix}/{path}"
                await self._lakefs.write(place.repository, place.branch, target, content)
            gone = [f"{area.prefix}/{path}" for path in plan.delete]
            if gone:
                await self._lakefs.objects.delete_many(place.repository, place.branch, gone)
            return TransferCounts(objects=len(writes), requests=1)

        return await self._stop("objects.upload", move, reads=False)

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        """The branch differs from its start by exactly the plan."""
        del materialised
        expected = {facts.path for facts in plan.upload} | {to.path for to, _ in plan.copy}
        expected |= set(plan.delete)
        place = area.staged

        async def changed() -> list[str]:
            page = await self._lakefs.commits.uncommitted_page(place.repository, place.branch)
            return [change.path.removeprefix(f"{area.prefix}/") for change in page.items]

        found = await self._stop("pipeline.verify", changed)
        if set(found) != expected:
            raise DamagedObjectError(f"staged {sorted(found)}, expected {sorted(expected)}")

    async def forget(self, materialised: Materialised) -> None:
        """Forget what was read."""
        self._read.pop(materialised.directory, None)

    async def describe(self, materialised: Materialised) -> None:
        """A simulated disk dies with its process."""

    async def reopen(
        self, source: WorkspaceSource, directory: Path, described: str
    ) -> Materialised:
        """Nothing was described."""
        raise AssertionError((source, directory, described))

    async def _under(self, source: WorkspaceSource) -> Files:
        start, objects = f"{source.prefix}/", self._lakefs.objects
        page = await objects.list_page(source.repository, source.commit, prefix=start)
        return {
            entry.path.removeprefix(start): await objects.read(
                source.repository, source.commit, entry.path
            )
            for entry in page.items
        }

    async def _stop(
        self, operation: str, effect: Callable[[], Awaitable[Result]], *, reads: bool = True
    ) -> Result:
        return cast("Result", await self._handle.stop(PortCall(operation, effect, reads=reads)))
