"""What a task is given and what it hands on: strictness, dropped writes, results as written."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pydantic import BaseModel, field_serializer
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene, Params, warnings

from perago.app.attempt.context import Attempt, AttemptPorts, AttemptSettings
from perago.app.attempt.ending import failed_update
from perago.app.attempt.run_attempt import read_input
from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.errors import DamagedResultError, StoredResultError, TaskFailed, TaskInputError
from perago.domain.policy import PolicySetting
from perago.domain.text import Secrets

NO_PORTS = cast("AttemptPorts", None)  # nothing is asked here


class Took(BaseModel):
    """A result that is written as nobody reads it."""

    duration: timedelta

    @field_serializer("duration")
    def _in_words(self, value: timedelta) -> str:
        return f"{value.total_seconds():.0f} seconds"


@task(name="free", owner_email="data@example.com")
def free(params: Params) -> Took:
    """A task without a workspace."""
    return Took(duration=timedelta(seconds=len(params.text)))


def _definition(declared: object) -> TaskDefinition:
    definition: TaskDefinition = vars(declared)["__perago_task__"]
    return definition


@pytest.mark.parametrize("strict", [False, True])
def test_strict_input_binds_tasks_without_a_workspace(
    strict: bool,  # noqa: FBT001 - a row of the table
) -> None:
    row = AttemptSnapshot("w", "t", "free", "free", AttemptStatus.IN_PROGRESS)
    record = AttemptRecord(row, {"params": {}, "more": 1})
    settings = AttemptSettings("worker", strict_input=strict)
    dispatch = Attempt(NO_PORTS, _definition(free), record, ExecutionId("e"), settings)
    if strict:
        with pytest.raises(TaskInputError, match="more"):
            read_input(dispatch)
    else:
        assert (read_input(dispatch), dispatch.params) == (None, {})


async def test_a_result_is_handed_on_as_its_model_wrote_it(tmp_path: Path) -> None:
    """Reading it again would fail: after the publication, with nothing left to be done."""
    scene = AttemptScene(tmp_path, PolicySetting.HEAD_PARENT)

    @task(name=TASK, owner_email="data@example.com", workspace=scene.spec)
    def edit(workspace: Path, params: Params) -> Took:
        (workspace / "out.txt").write_text(params.text)
        return Took(duration=timedelta(seconds=3))

    scene.task = _definition(edit)
    await scene.start()
    story = await scene.next_attempt()
    assert story.output["result"] == {"duration": "3 seconds"}


def _link(workspace: Path, _: int) -> None:
    (workspace / "link").symlink_to("kept.txt")


def _remove(workspace: Path, _: int) -> None:
    shutil.rmtree(workspace)


def _write(workspace: Path, _: int) -> None:
    (workspace / "new.txt").write_text("new")


@pytest.mark.parametrize("body", [_link, _remove, _write], ids=["symlink", "removed", "written"])
async def test_whatever_a_read_only_task_wrote_is_dropped_with_a_warning(
    tmp_path: Path, body: Callable[[Path, int], None]
) -> None:
    spec = WorkspaceSpec(prefix="data", read_only=True)
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED, spec=spec, body=body).started()
    story = await scene.next_attempt()

    assert story.status == AttemptStatus.COMPLETED, story.reason
    assert story.output["workspace"] == scene.workspace()
    text = "local writes of a read-only task were dropped"
    assert text in warnings(story)
    assert scene.repository.head().commit == scene.input


def _failed(error: Exception, reference: str, settings: AttemptSettings) -> str:
    """The reason that Conductor gets."""
    row = AttemptSnapshot("w", "t", reference, "free", AttemptStatus.IN_PROGRESS)
    record = AttemptRecord(row, {})
    dispatch = Attempt(NO_PORTS, _definition(free), record, ExecutionId("e"), settings)
    update = failed_update(dispatch, error)
    assert update is not None
    return str(update.reason)


def test_no_reason_has_a_secret_and_half_of_one_neither() -> None:
    secret = 's3cr"et of the worker'
    settings = AttemptSettings("worker", failure_reason_max_length=30, secrets=Secrets.of([secret]))
    reason = _failed(TaskFailed(f"cannot open a://key:{secret}@host"), "ref", settings)
    assert reason == "cannot open a://key:***@host"


def test_an_attempt_as_text_shows_nothing_of_its_ports() -> None:
    """They are made of the clients of adapters, and any of them may show its key."""
    ports = cast("AttemptPorts", SimpleNamespace(queue="https://key:hush@conductor"))
    row = AttemptSnapshot("w", "t", "free", "free", AttemptStatus.IN_PROGRESS)
    settings, free_task = AttemptSettings("worker"), _definition(free)
    dispatch = Attempt(ports, free_task, AttemptRecord(row, {}), ExecutionId("e"), settings)
    assert "hush" in repr(ports)
    assert "hush" not in repr(dispatch)


def test_a_command_in_a_reason_can_be_typed_and_makes_no_reason_too_long() -> None:
    error = DamagedResultError("a part is gone")
    whole = _failed(error, "my task", AttemptSettings("worker"))
    assert "w 'my task'" in whole
    short = AttemptSettings("worker", failure_reason_max_length=len(str(error)))
    assert len(_failed(error, "long " * 50, short)) == len(str(error))


def test_the_words_of_a_team_stay_as_they_wrote_them() -> None:
    error = TaskFailed("no WORKFLOW REFERENCE in the order")
    assert _failed(error, "ref", AttemptSettings("worker")) == "no WORKFLOW REFERENCE in the order"


@pytest.mark.parametrize(
    "error", [DamagedResultError("x"), StoredResultError("x")], ids=["damaged", "differing"]
)
def test_an_error_that_a_reset_repairs_names_the_command_of_its_task(error: Exception) -> None:
    reason = _failed(error, "ref", AttemptSettings("worker"))
    command = "once the workflow has ended, run `perago reset-task w ref`"
    assert f"{command}, and its retry computes again [" in reason


def test_the_fact_in_an_error_is_not_taken_for_its_command() -> None:
    reason = _failed(StoredResultError("WORKFLOW REFERENCE"), "ref", AttemptSettings("worker"))
    assert "model in: WORKFLOW REFERENCE;" in reason
