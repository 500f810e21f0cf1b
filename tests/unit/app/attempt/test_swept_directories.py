"""A cleaner that takes a directory while it is compared must not look like a body's deletions."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import pytest
from tests.attempt_worlds import AttemptWorker
from tests.unit.app.attempt.fault_world import FaultWorld
from tests.unit.app.attempt.test_spark_attempts import spark_task

from perago.app.authoring.failure import error_code
from perago.app.authoring.task_declaration import task_of
from perago.domain.policy import PolicySetting
from perago.domain.sync_plan import SyncPlan
from perago.ports.task_body import BodyCall, BodyOutcome, BodyReturned, TaskBody
from perago.ports.workspace import (
    Materialised,
    StagingArea,
    TransferCounts,
    WorkspacePipeline,
    WorkspaceSource,
)


@final
@dataclass
class SweptPipeline(WorkspacePipeline):
    """The real one, while whose scan somebody removes every file of an attempt."""

    real: WorkspacePipeline
    root: Path

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        """As it is."""
        return await self.real.materialise(source, directory)

    async def plan(self, materialised: Materialised) -> SyncPlan:
        """The directories stay, so that nothing is missing where the scan looks for it."""
        for path in self.root.glob("**/task_id=*/**/*"):
            if path.is_file():
                path.unlink()
        return await self.real.plan(materialised)

    async def transfer(
        self, materialised: Materialised, plan: SyncPlan, area: StagingArea
    ) -> TransferCounts:
        """As it is."""
        return await self.real.transfer(materialised, plan, area)

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        """As it is."""
        await self.real.verify(materialised, plan, area)

    async def listing(self, source: WorkspaceSource) -> list[str]:
        """As it is."""
        return list(await self.real.listing(source))

    async def forget(self, materialised: Materialised) -> None:
        """As it is."""
        await self.real.forget(materialised)

    async def describe(self, materialised: Materialised) -> str | None:
        """As it is."""
        return await self.real.describe(materialised)

    async def reopen(
        self, source: WorkspaceSource, directory: Path, described: str
    ) -> Materialised:
        """As it is."""
        return await self.real.reopen(source, directory, described)


@final
class IdleBody(TaskBody):
    """A Spark body that writes nothing."""

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Return at once."""
        assert call.spark is not None
        return BodyReturned({})


def _on_spark(world: FaultWorld) -> AttemptWorker:
    """A worker without a gateway: Spark works on local files."""
    world.task = task_of(spark_task)
    worker = world.worker()
    return replace(worker, world=replace(worker.world, body=IdleBody()))


@pytest.mark.parametrize("on_spark", [False, True], ids=["local", "spark"])
async def test_a_directory_that_is_swept_while_it_is_compared_publishes_nothing(
    tmp_path: Path,
    on_spark: bool,  # noqa: FBT001 - a row of the table
) -> None:
    world = FaultWorld(tmp_path, PolicySetting.SETTLED)
    await world.start()
    worker = _on_spark(world) if on_spark else world.worker()
    swept = SweptPipeline(worker.world.lakefs.pipeline, tmp_path)
    lakefs = replace(worker.world.lakefs, pipeline=swept)

    report = await world.attempt(replace(worker, world=replace(worker.world, lakefs=lakefs)))

    assert report is not None
    assert report.error is not None, "the deletions were published"
    assert error_code(report.error) == "PRG-W003"
    assert world.above_input() == []
