"""The callback API of 0.6.1: the caller moves and publishes, the lifecycle is the spine's."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

import perago
from perago import (
    PublishFenceError,
    StagedWorkspace,
    TaskInputError,
    TaskTerminalError,
    WorkspaceInput,
    WorkspaceSpec,
    require_file,
    run_workspace_free_task_attempt,
    run_workspace_task_attempt,
    task,
)
from perago.app.authoring.failure import RuntimeTaskResult
from perago.app.authoring.task_definition import TaskDefinition

INPUT = {"repository": "repo", "branch": "main", "refType": "commit", "ref": "A"}


class Params(BaseModel):
    """What the body is told to do."""

    text: str | None = None


class Result(BaseModel):
    """What the body says."""

    files: int


@dataclass(frozen=True)
class Attempt:
    """An attempt as a caller of 0.6.1 has one."""

    workflow_instance_id: str = "w"
    task_id: str = "t1"
    retry_count: int = 0
    task_def_name: str = "edit"
    reference_task_name: str = "edit"
    seq: int = 1
    iteration: int = 0
    status: str = "IN_PROGRESS"


@dataclass
class Caller:
    """Callbacks over a dictionary, and the order in which they were called."""

    root: Path
    polled: Attempt = field(default_factory=Attempt)
    current: Attempt = field(default_factory=Attempt)
    calls: list[str] = field(default_factory=list[str])
    prefixes: list[str] = field(default_factory=list[str])
    fail: dict[str, Exception] = field(default_factory=dict[str, Exception])

    def run(
        self, definition: TaskDefinition, params: dict[str, Any], **changes: object
    ) -> RuntimeTaskResult:
        """Run one attempt with these callbacks."""
        options: dict[str, Any] = {
            "download_workspace": self.download,
            "load_current_attempt": self.load,
            "stage_workspace": self.stage,
            "publish_workspace": self.publish,
            "cleanup_staging": self.clean,
            "complete_noop_workspace": self.noop,
            "failure_reason_max_length": 500,
        }
        options.update(changes)
        data = {"workspace": INPUT, "params": params}
        return run_workspace_task_attempt(definition, data, self.polled, self.root, **options)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.fail:
            raise self.fail[name]

    def download(self, workspace: WorkspaceInput, spec: WorkspaceSpec, folder: Path) -> None:
        """One file."""
        del workspace
        self.prefixes.append(spec.prefix)
        self._called("download")
        (folder / "in.txt").write_text("in")

    def load(self, attempt: object) -> Attempt:
        """The attempt now."""
        del attempt
        self._called("load")
        return self.current

    def stage(self, folder: Path, *_: object) -> StagedWorkspace:
        """Say what was staged."""
        assert folder.is_dir()
        self._called("stage")
        return StagedWorkspace("repo", "perago-staging-x", "S")

    def publish(self, *_: object) -> str:
        """Publish."""
        self._called("publish")
        return "P"

    def noop(self, *_: object) -> str:
        """Complete without a change."""
        self._called("noop")
        return "A"

    def clean(self, staged: StagedWorkspace) -> None:
        """Clean."""
        self._called("clean")
        assert staged.branch == "perago-staging-x"


def _declare(spec: WorkspaceSpec, body: Callable[[Path, Params], None]) -> TaskDefinition:
    @task(name="edit", owner_email="a@example.com", workspace=spec)
    def edit(workspace: Path, params: Params) -> Result:
        body(workspace, params)
        return Result(files=len(list(workspace.glob("*.txt"))))

    definition: TaskDefinition = vars(edit)["__perago_task__"]
    return definition


def _write(workspace: Path, params: Params) -> None:
    if params.text is not None:
        (workspace / "out.txt").write_text(params.text)


@pytest.fixture
def caller(tmp_path: Path) -> Caller:
    return Caller(tmp_path)


EDIT = _declare(WorkspaceSpec(prefix="data"), _write)


def test_a_change_is_staged_between_two_fences_and_published(caller: Caller) -> None:
    result = caller.run(EDIT, {"text": "new"})

    assert result.status == "COMPLETED"
    assert result.output == {"workspace": {**INPUT, "ref": "P"}, "result": {"files": 2}}
    assert caller.calls == ["download", "load", "stage", "load", "publish", "clean"]


@pytest.mark.parametrize(
    ("text", "prefixes", "status"),
    [("a", ["songs/a"], "COMPLETED"), ("a/b", [], "FAILED_WITH_TERMINAL_ERROR")],
)
def test_callbacks_get_the_prefix_with_the_value_of_params(
    caller: Caller, text: str, prefixes: list[str], status: str
) -> None:
    edit = _declare(WorkspaceSpec(prefix="songs/{params.text}"), _write)
    assert caller.run(edit, {"text": text}).status == status
    assert caller.prefixes == prefixes


def test_checks_are_refused_before_anything_is_moved(caller: Caller) -> None:
    checked = _declare(WorkspaceSpec(prefix="data", checks=[print]), _write)

    result = caller.run(checked, {"text": "new"})

    assert result.status == "FAILED"
    assert "callbacks have no staged commit to show" in str(result.reason_for_incompletion)
    assert caller.calls == []


def _checkpoint(workspace: Path, params: Params) -> None:
    del params
    perago.current_attempt().checkpoint(workspace)


def test_a_checkpoint_is_refused_with_the_command_that_allows_it(caller: Caller) -> None:
    result = caller.run(_declare(WorkspaceSpec(prefix="data"), _checkpoint), {})

    assert result.status == "FAILED"
    reason = str(result.reason_for_incompletion)
    assert "no checkpoints here: the callbacks of 0.6.1 keep none" in reason
    assert "`perago start MODULE`" in reason
    assert "PRG-B005" in reason
    assert caller.calls == ["download"]


def _ask_what_changed(workspace: Path, params: Params) -> None:
    del workspace, params
    perago.current_attempt().changes()


def test_what_changed_is_refused_because_no_callback_reads_the_history(caller: Caller) -> None:
    result = caller.run(_declare(WorkspaceSpec(prefix="data"), _ask_what_changed), {})

    reason = str(result.reason_for_incompletion)
    assert "the callbacks of 0.6.1 do not ask lakeFS for it; run the task in a worker" in reason
    assert "PRG-B007" in reason


def test_a_checkpoint_without_a_workspace_is_refused_in_the_same_words() -> None:
    @task(name="free", owner_email="a@example.com")
    def free(params: Params) -> Result:
        del params
        perago.current_attempt().checkpoint(".")
        return Result(files=0)

    definition: TaskDefinition = vars(free)["__perago_task__"]
    result = run_workspace_free_task_attempt(
        definition, {"params": {}}, failure_reason_max_length=500
    )

    assert "the callbacks of 0.6.1 keep none" in str(result.reason_for_incompletion)


@pytest.mark.parametrize("retry_count", [1, 2])
@pytest.mark.parametrize("params", [{"text": "new"}, {}], ids=["changed", "unchanged"])
def test_a_retry_ends_like_a_first_attempt(
    caller: Caller, params: dict[str, Any], retry_count: int
) -> None:
    first = caller.run(EDIT, params)
    caller.polled = caller.current = Attempt(task_id=f"t{retry_count}", retry_count=retry_count)
    assert caller.run(EDIT, params) == first
    assert first.status == "COMPLETED"


def test_no_change_is_completed_by_the_callers_rule(caller: Caller) -> None:
    result = caller.run(EDIT, {})

    assert result.output == {"workspace": INPUT, "result": {"files": 1}}
    assert caller.calls == ["download", "load", "noop"]


def test_the_commit_that_the_callers_rule_names_is_the_output(caller: Caller) -> None:
    def another(*_: object) -> str:
        return "B"

    result = caller.run(EDIT, {}, complete_noop_workspace=another)
    assert result.output == {"workspace": INPUT | {"ref": "B"}, "result": {"files": 1}}


async def test_an_attempt_can_be_run_where_a_loop_runs_already(caller: Caller) -> None:
    assert caller.run(EDIT, {}).status == "COMPLETED"


def test_what_a_callback_ends_the_process_with_is_not_lost_in_a_thread(caller: Caller) -> None:
    async def inside() -> None:
        caller.run(EDIT, {"text": "x"})

    caller.fail["stage"] = cast("Any", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(inside())


def test_a_read_only_task_asks_no_callback(caller: Caller) -> None:
    result = caller.run(_declare(WorkspaceSpec(read_only=True), _write), {"text": "dropped"})

    assert result.output == {"workspace": INPUT, "result": {"files": 2}}
    assert caller.calls == ["download"]


def test_a_writable_no_op_needs_its_callback(caller: Caller) -> None:
    result = caller.run(EDIT, {}, complete_noop_workspace=None)

    assert result.status == "FAILED"
    assert "complete_noop_workspace callback is required" in str(result.reason_for_incompletion)


def test_a_stale_attempt_stages_nothing(caller: Caller) -> None:
    caller.current = replace(caller.current, retry_count=1)

    result = caller.run(EDIT, {"text": "new"})

    assert result.status == "FAILED"
    assert "t1" in str(result.reason_for_incompletion)
    assert caller.calls == ["download", "load"]


@pytest.mark.parametrize(
    ("step", "calls"),
    [
        ("download", ["download"]),
        ("stage", ["download", "load", "stage"]),
        ("publish", ["download", "load", "stage", "load", "publish", "clean"]),
    ],
)
def test_a_callback_that_raises_fails_the_attempt_and_is_cleaned_after(
    caller: Caller, step: str, calls: list[str]
) -> None:
    caller.fail[step] = PublishFenceError(f"{step} refused")

    result = caller.run(EDIT, {"text": "new"})

    assert result.status == "FAILED"
    assert f"{step} refused" in str(result.reason_for_incompletion)
    assert caller.calls == calls


def test_a_failing_clean_up_keeps_the_result(caller: Caller) -> None:
    caller.fail["clean"] = RuntimeError("no")
    assert caller.run(EDIT, {"text": "new"}).status == "COMPLETED"


def test_nothing_is_left_on_the_disk(caller: Caller) -> None:
    caller.run(EDIT, {"text": "new"})
    assert not [path for path in caller.root.iterdir() if path.name.startswith("task")]


def _terminal(workspace: Path, params: Params) -> None:
    del workspace, params
    raise TaskTerminalError("no use")


def test_terminal_errors_and_pre_guardrails_are_terminal(caller: Caller) -> None:
    spec = WorkspaceSpec(prefix="data", pre=[require_file("missing.txt")])
    for definition in (_declare(WorkspaceSpec(), _terminal), _declare(spec, _write)):
        result = caller.run(definition, {})
        assert result.status == "FAILED_WITH_TERMINAL_ERROR"


def test_the_wrong_kind_of_task_is_refused(caller: Caller) -> None:
    @task(name="free", owner_email="a@example.com")
    def free(params: Params) -> Result:
        return Result(files=len(params.text or ""))

    definition: TaskDefinition = vars(free)["__perago_task__"]
    with pytest.raises(TaskInputError, match="only supports workspace tasks"):
        caller.run(definition, {})
    with pytest.raises(TaskInputError, match="only supports workspace-free tasks"):
        run_workspace_free_task_attempt(EDIT, {"params": {}}, failure_reason_max_length=500)
    result = run_workspace_free_task_attempt(
        definition, {"params": {"text": "abc"}}, failure_reason_max_length=500
    )
    assert result.output == {"result": {"files": 3}}
