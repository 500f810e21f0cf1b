"""Calling a body: which arguments it gets, and in which order things are checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel, ValidationError

from perago import (
    build_workspace_free_task_output,
    build_workspace_task_output,
    run_workspace_free_task_attempt,
    run_workspace_task_attempt,
)
from perago.app.authoring.guardrails import require_file
from perago.app.authoring.invocation import (
    invoke_body,
    invoke_workspace_free_task,
    invoke_workspace_task_body,
)
from perago.app.authoring.metrics import (
    InMemoryMetricRecorder,
    MetricRecorder,
    TaskAttemptMetricContext,
)
from perago.app.authoring.task_definition import MetricSpec, TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.errors import PostGuardrailViolation, PreGuardrailViolation, TaskInputError

CALLBACKS = (
    "download_workspace",
    "load_current_attempt",
    "stage_workspace",
    "publish_workspace",
    "cleanup_staging",
)
PLACE = {"repository": "songs", "branch": "main", "refType": "commit", "ref": "c1"}
GUARDED = WorkspaceSpec(pre=[require_file("in.txt")], post=[require_file("out.txt")])


class Params(BaseModel):
    """Params."""

    name: str = "out.txt"


class Result(BaseModel):
    """Result."""

    written: str


def plain(params: Params) -> Result:
    return Result(written=params.name)


def in_workspace(workspace: Path, params: Params) -> Result:
    (workspace / params.name).write_text("x")
    return Result(written=params.name)


def measured(params: Params, metrics: MetricRecorder) -> dict[str, str]:
    metrics.gauge("called", 1)
    return {"written": params.name}


def definition(
    fn: Callable[..., Any],
    *,
    workspace: WorkspaceSpec | None = None,
    metrics: MetricSpec | None = None,
) -> TaskDefinition:
    return TaskDefinition("n", "o", fn, Params, Result, workspace=workspace, metrics=metrics)


def test_a_workspace_free_body_gets_its_params() -> None:
    task = definition(plain)
    assert invoke_workspace_free_task(task, {"params": {}, "other": 1}) == {
        "result": {"written": "out.txt"}
    }
    assert invoke_body(task, {"name": "x"}, None) == {"written": "x"}


def test_a_workspace_body_runs_between_its_guardrails(tmp_path: Path) -> None:
    task = definition(in_workspace, workspace=GUARDED)
    given: dict[str, Any] = {"workspace": PLACE, "params": {}}
    with pytest.raises(PreGuardrailViolation):
        invoke_workspace_task_body(task, given, tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "in.txt").write_text("x")
    with pytest.raises(PostGuardrailViolation):
        invoke_workspace_task_body(task, given | {"params": {"name": "other"}}, tmp_path)
    assert invoke_workspace_task_body(task, given, tmp_path) == {"result": {"written": "out.txt"}}


def test_params_are_validated_before_guardrails_and_body(tmp_path: Path) -> None:
    task = definition(in_workspace, workspace=GUARDED)
    with pytest.raises(ValidationError, match=r"params\.name"):
        invoke_workspace_task_body(task, {"workspace": PLACE, "params": {"name": 1}}, tmp_path)


def test_a_metrics_enabled_body_needs_a_recorder() -> None:
    task = definition(measured, metrics=MetricSpec())
    with pytest.raises(TaskInputError) as caught:
        invoke_workspace_free_task(task, {"params": {}})
    assert str(caught.value) == "metrics-enabled task invocation requires a MetricRecorder"
    recorder = InMemoryMetricRecorder(
        context=TaskAttemptMetricContext("n", "task", "workflow", "execution", "worker", 0)
    )
    assert invoke_body(task, {}, None, metrics=recorder) == {"written": "out.txt"}
    assert [each.name for each in recorder.gauges] == ["app.called"]


WRONG_KIND: list[tuple[Callable[[TaskDefinition], object], bool, str]] = [
    (
        lambda task: invoke_workspace_task_body(task, {}, Path()),
        False,
        "invoke_workspace_task_body only supports workspace tasks",
    ),
    (
        lambda task: invoke_workspace_free_task(task, {}),
        True,
        "invoke_workspace_free_task only supports workspace-free tasks",
    ),
    (
        lambda task: cast("Any", run_workspace_task_attempt)(
            task, {}, None, Path(), **dict.fromkeys(CALLBACKS), failure_reason_max_length=9
        ),
        False,
        "run_workspace_task_attempt only supports workspace tasks",
    ),
    (
        lambda task: run_workspace_free_task_attempt(task, {}, failure_reason_max_length=9),
        True,
        "run_workspace_free_task_attempt only supports workspace-free tasks",
    ),
    (
        lambda task: build_workspace_task_output(task, PLACE, "c2", {}),
        False,
        "workspace output can only be built for workspace tasks",
    ),
    (
        lambda task: build_workspace_free_task_output(task, {}),
        True,
        "workspace-free output can only be built for workspace-free tasks",
    ),
]


@pytest.mark.parametrize(
    ("call", "has_workspace", "text"), WRONG_KIND, ids=[row[2].split()[0] for row in WRONG_KIND]
)
def test_a_call_for_the_other_kind_of_task_is_refused(
    call: Callable[[TaskDefinition], object], text: str, *, has_workspace: bool
) -> None:
    task = definition(in_workspace, workspace=WorkspaceSpec())
    with pytest.raises(TaskInputError) as caught:
        call(task if has_workspace else definition(plain))
    assert str(caught.value) == text
    assert caught.value.code == "PRG-I007"
