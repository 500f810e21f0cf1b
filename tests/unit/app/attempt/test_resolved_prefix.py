"""A prefix with a value of params is resolved once, and every step sees the folder."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.unit.app.attempt.fault_world import TASK, FaultWorld, Params, reason_of
from tests.unit.app.attempt.test_spark_attempts import GATEWAY, WritingBody
from tests.unit.app.gc.gc_scene import DAY, collect, litter

from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.commit_metadata import PREFIX
from perago.domain.policy import PolicySetting
from perago.ports.workspace import SparkWorkspace
from perago.testing.faults import Fault, crash, lose_answer, meanwhile

SPEC = WorkspaceSpec(prefix="{params.text}", isolation="prefix")


def _world(tmp_path: Path, text: str = "data") -> FaultWorld:
    return FaultWorld(tmp_path, PolicySetting.SETTLED, spec=SPEC, params={"text": text})


@pytest.mark.parametrize(
    "faults",
    [(), (lose_answer("merge"),), (lose_answer("stage"),)],
    ids=["all is well", "the merge's answer is lost", "the staging's answer is lost"],
)
async def test_files_and_metadata_are_those_of_the_folder(
    tmp_path: Path, faults: tuple[Fault, ...]
) -> None:
    world = await _world(tmp_path).started()
    elsewhere = meanwhile(lambda: world.human("elsewhere/human.txt"), before="tags.create")
    report = await world.report(elsewhere, *faults)
    assert report.error is None
    (published,) = world.publications()
    assert published.metadata[PREFIX] == "data"
    assert world.repository.files()["data/out.txt"] == b"data 1"
    assert "elsewhere/human.txt" in world.repository.files()


async def test_a_default_of_the_model_names_the_folder(tmp_path: Path) -> None:
    world = FaultWorld(tmp_path, PolicySetting.SETTLED, spec=SPEC, body=_writes)
    await world.start()
    assert (await world.report()).error is None
    assert world.repository.files()["new/out.txt"] == b"written"


def _writes(workspace: Path, run: int) -> None:
    del run
    (workspace / "out.txt").write_text("written")


async def test_a_change_below_the_folder_is_in_the_way(tmp_path: Path) -> None:
    world = await _world(tmp_path).started()
    report = await world.report(
        meanwhile(lambda: world.human("data/human.txt"), before="tags.create")
    )
    assert "PRG-F002" in reason_of(report)
    assert world.publications() == []


@pytest.mark.parametrize("point", ["body", "stage", "merge", "complete"])
async def test_whatever_dies_one_publication_in_the_folder_comes_of_it(
    tmp_path: Path, point: str
) -> None:
    world = await _world(tmp_path).started()
    await world.attempt(world.worker([crash(after=point)]))
    await world.lose_lease()
    workflow = await world.finish()
    assert workflow.status is WorkflowStatus.COMPLETED
    (published,) = world.publications()
    assert published.metadata[PREFIX] == "data"


async def test_a_reset_lets_the_task_compute_again_in_its_folder(tmp_path: Path) -> None:
    world = await _world(tmp_path).started()
    await world.attempt(world.worker([crash(before="merge")]))
    await world.operator.workflows.terminate(world.workflow, "the operator looks at it")
    reset = await world.reset_task()
    assert len(reset.decisions) == 1
    await world.operator.workflows.retry(world.workflow)
    report = await world.report()
    assert report.error is None, report.error
    assert world.runs == 2
    assert world.repository.files()["data/out.txt"] == b"data 2"


async def test_garbage_collection_takes_what_a_death_has_left(tmp_path: Path) -> None:
    world = await _world(tmp_path).started()
    await world.attempt(world.worker([crash(after="stage")]))
    await world.operator.workflows.terminate(world.workflow, "enough")
    world.clock.advance(30 * DAY)
    await collect(world)
    assert litter(world) == []


class Done(BaseModel):
    """Nothing to say."""


@task(name=TASK, owner_email="data@example.com", workspace=SPEC)
def spark_task(workspace: SparkWorkspace, params: Params) -> Done:
    """Never called: `WritingBody` stands for it."""
    raise AssertionError(workspace, params)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("data/part-0.parquet", AttemptStatus.COMPLETED),
        ("data2/part-0.parquet", AttemptStatus.FAILED),
    ],
)
async def test_spark_may_write_below_the_folder_and_nowhere_else(
    tmp_path: Path, path: str, status: AttemptStatus
) -> None:
    world = _world(tmp_path)
    world.task = task_of(spark_task)
    await world.start()
    seen: list[str] = []
    body = WritingBody(world, (path,), lambda roots: seen.append(roots.prefix))
    worker = world.worker()
    worker = replace(worker, world=replace(worker.world, body=body, spark_gateway=GATEWAY))
    report = await world.report_of(worker)
    assert report.status == status, report.error
    assert seen == ["data"]
