"""A prefix with a value of params is resolved once, and every step sees the folder."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene, Params
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


def _scene(tmp_path: Path, text: str = "data") -> AttemptScene:
    return AttemptScene(tmp_path, PolicySetting.SETTLED, spec=SPEC, params={"text": text})


@pytest.mark.parametrize(
    "faults",
    [(), (lose_answer("merge"),), (lose_answer("stage"),)],
    ids=["all is well", "the merge's answer is lost", "the staging's answer is lost"],
)
async def test_files_and_metadata_are_those_of_the_folder(
    tmp_path: Path, faults: tuple[Fault, ...]
) -> None:
    scene = await _scene(tmp_path).started()
    elsewhere = meanwhile(lambda: scene.human("elsewhere/human.txt"), before="tags.create")
    story = await scene.next_attempt(elsewhere, *faults)
    assert story.accepted, story.reason
    (published,) = scene.publications()
    assert published.metadata[PREFIX] == "data"
    assert scene.repository.files()["data/out.txt"] == b"data 1"
    assert "elsewhere/human.txt" in scene.repository.files()


async def test_a_default_of_the_model_names_the_folder(tmp_path: Path) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.SETTLED, spec=SPEC, body=_writes)
    await scene.start()
    assert (await scene.next_attempt()).accepted
    assert scene.repository.files()["new/out.txt"] == b"written"


def _writes(workspace: Path, run: int) -> None:
    del run
    (workspace / "out.txt").write_text("written")


async def test_a_change_below_the_folder_is_in_the_way(tmp_path: Path) -> None:
    scene = await _scene(tmp_path).started()
    story = await scene.next_attempt(
        meanwhile(lambda: scene.human("data/human.txt"), before="tags.create")
    )
    assert "PRG-F002" in str(story.reason)
    assert scene.publications() == []


@pytest.mark.parametrize("point", ["function", "stage", "merge", "complete"])
async def test_whatever_dies_one_publication_in_the_folder_comes_of_it(
    tmp_path: Path, point: str
) -> None:
    scene = await _scene(tmp_path).started()
    await scene.next_attempt(crash(after=point))
    workflow = await scene.finished()
    assert workflow.status is WorkflowStatus.COMPLETED
    (published,) = scene.publications()
    assert published.metadata[PREFIX] == "data"


async def test_a_reset_lets_the_task_compute_again_in_its_folder(tmp_path: Path) -> None:
    scene = await _scene(tmp_path).started()
    await scene.next_attempt(crash(before="merge"))
    await scene.operator.workflows.terminate(scene.workflow, "the operator looks at it")
    reset = await scene.reset_task()
    assert len(reset.decisions) == 1
    await scene.operator.workflows.retry(scene.workflow)
    story = await scene.next_attempt()
    assert story.accepted, story.reason
    assert scene.runs == 2
    assert scene.repository.files()["data/out.txt"] == b"data 2"


async def test_garbage_collection_takes_what_a_death_has_left(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, spec=SPEC, params={"text": "data"})
    await harness.start()
    await harness.attempt(harness.worker([crash(after="stage")]))
    await harness.operator.workflows.terminate(harness.workflow, "enough")
    harness.clock.advance(30 * DAY)
    await collect(harness)
    assert litter(harness) == []


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
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, spec=SPEC, params={"text": "data"})
    harness.task = task_of(spark_task)
    await harness.start()
    seen: list[str] = []
    body = WritingBody(harness, (path,), lambda roots: seen.append(roots.prefix))
    worker = harness.worker()
    worker = replace(worker, harness=replace(worker.harness, body=body, spark_gateway=GATEWAY))
    report = await harness.report_of(worker)
    assert report.status == status, report.error
    assert seen == ["data"]
