"""Every code of declarations, configuration and envelopes is what its mistake is answered with."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import BaseModel, RootModel

from perago import (
    ExecutionLimits,
    TaskControls,
    TaskFailed,
    TaskTerminalError,
    WorkspaceSpec,
    build_taskdef,
    check_guardrails,
    invoke_workspace_free_task,
    load_module_task,
    load_runtime_config,
    require_file,
    task,
    worker_child_specs,
    workspace_upload_files,
    write_taskdef,
)
from perago.adapters.filesystem.locks import RootLock
from perago.app.authoring.current_attempt import ChangesAsker, CheckpointTaker
from perago.app.authoring.envelope import (
    check_stored_result,
    read_params,
    read_workspace_input,
    validate_result,
)
from perago.app.authoring.failure import error_code, error_is_terminal
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workflow_definition import fork_definitions
from perago.app.command_line.loading import load_tasks
from perago.app.command_line.servers import server_errors
from perago.app.command_line.spark import parse_address
from perago.app.connections import ConductorConnection
from perago.app.container import open_conductor
from perago.app.settings.settings import load_settings
from perago.app.start_worker import check_conductor, check_services
from perago.app.worker.executor_user import executor_python_of, executor_user_of
from perago.app.worker_assembly import check_registered
from perago.domain.error_codes import Retried, UnknownCodeError, error_codes
from perago.domain.errors import PrefixValueError
from perago.ports.task_body import CheckpointTerms
from perago_servers import FetchError

PLACE = {"repository": "r", "branch": "b", "refType": "commit", "ref": "c"}
BUDGET = dict.fromkeys(
    (
        "observed_merge_p99_seconds",
        "safety_margin_seconds",
        "lakefs_merge_timeout_seconds",
        "conductor_completion_timeout_seconds",
        "worker_shutdown_grace_seconds",
        "heartbeat_interval_seconds",
    ),
    5,
)


class Model(BaseModel):
    """Params and result."""

    a: int = 1


class Root(RootModel[int]):
    """Not an object model."""


def plain(params: Model) -> Model:
    return params


async def coroutine(params: Model) -> Model:
    return params


def definition(
    params: type[BaseModel] = Model, *, workspace: WorkspaceSpec | None = None
) -> TaskDefinition:
    return TaskDefinition("t", "o", plain, params, Model, workspace=workspace)


FREE, IN_WORKSPACE = definition(), definition(workspace=WorkspaceSpec())


def declare(fn: Callable[..., Any] = plain, **keywords: object) -> None:
    untyped = cast("Callable[..., Callable[[Any], Any]]", task)
    untyped(**{"name": "n", "owner_email": "o"} | keywords)(fn)


def declare_text(text: str) -> None:
    names: dict[str, Any] = {"Model": Model}
    exec(f"def f{text}: ...", names)  # noqa: S102  # a constant of this file
    declare(names["f"])


def module(name: str, text: str) -> str:
    made = ModuleType(name)
    sys.modules[name] = made
    exec(text, vars(made))  # noqa: S102  # a constant of this file
    return name


def raising_module(folder: Path) -> str:
    (folder / "raises_at_import.py").write_text("1 / 0\n")
    sys.path.insert(0, str(folder))
    return "raises_at_import"


def settings(env: Mapping[str, str]) -> None:
    load_runtime_config("m", cwd=Path("/nonexistent"), process_env=env, probe_roots=False)


def loaded(env: Mapping[str, str]) -> Any:  # noqa: ANN401  # handed on
    return load_settings(cwd=Path("/nonexistent"), process_env=env)


def two_workers(root: Path) -> None:
    """Lock a root that is locked."""
    with RootLock(root), RootLock(root):
        pass


def with_shared_root(folder: Path) -> object:
    folder.chmod(0o777)
    return load_runtime_config("m", cwd=folder, process_env={"PERAGO_WORKSPACE_ROOT": str(folder)})


def with_pyproject(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.perago]\nunknown = 1\n")
    load_settings(cwd=folder, process_env={})


def with_link(folder: Path) -> None:
    (folder / "link").symlink_to("nowhere")
    workspace_upload_files(folder, WorkspaceSpec())


def with_odd_name(folder: Path) -> None:
    (folder / "a\\b").write_text("x")
    workspace_upload_files(folder, WorkspaceSpec())


class Empty:
    """A registry without documents."""

    async def read(self, name: str) -> None:
        """Know nothing."""


def raising(error: Exception) -> None:
    raise error


MISTAKES: dict[str, Callable[[Path], object]] = {
    "PRG-T002": lambda _: declare(unknown=1),
    "PRG-T003": lambda _: declare(name=""),
    "PRG-T004": lambda _: declare(strict_params=1),
    "PRG-T005": lambda _: declare(
        controls=TaskControls.model_validate(
            {"publish_budget": BUDGET | {"lakefs_merge_timeout_seconds": 10}}
        )
    ),
    "PRG-T006": lambda _: declare(coroutine),
    "PRG-T007": lambda _: declare_text("(*params: Model) -> Model"),
    "PRG-T008": lambda _: declare_text("(params: 'Missing') -> Model"),
    "PRG-T009": lambda _: declare_text("() -> Model"),
    "PRG-T010": lambda _: declare_text("(params: Model) -> dict"),
    "PRG-T011": lambda folder: load_tasks([raising_module(folder)]),
    "PRG-T012": lambda _: build_taskdef(definition(Root)),
    "PRG-T013": lambda _: load_module_task("a/b"),
    "PRG-T014": lambda _: load_module_task(module("has_no_task", "")),
    "PRG-T015": lambda _: WorkspaceSpec(prefix=".."),
    "PRG-T016": lambda _: require_file("../a"),
    "PRG-T017": lambda _: ExecutionLimits(rate_limit_per_frequency=1),
    "PRG-T018": lambda _: write_taskdef(FREE, Path("out.txt")),
    "PRG-T019": lambda _: asyncio.run(check_registered(cast("Any", Empty()), [FREE], strict=False)),
    "PRG-T020": lambda _: load_tasks(["no_such_module_at_all"]),
    "PRG-T021": lambda _: build_taskdef(definition(Calling)),
    "PRG-T022": lambda _: WorkspaceSpec.model_validate({"checks": [lambda: None]}),
    "PRG-T023": lambda _: WorkspaceSpec(prefix="{params}"),
    "PRG-T024": lambda _: fork_definitions("w", [IN_WORKSPACE, IN_WORKSPACE]),
    "PRG-C002": lambda _: settings({"PERAGO_LOG_RETENTION": "x"}),
    "PRG-C003": lambda _: settings({"CONDUCTOR_SERVER_URL": "replace-me"}),
    "PRG-C004": lambda _: settings({"LAKECTL_SERVER_ENDPOINT_URL": "u"}),
    "PRG-C005": lambda folder: load_runtime_config(
        "m", cwd=folder, process_env={"PERAGO_WORKSPACE_ROOT": "/proc/none"}
    ),
    "PRG-C006": with_pyproject,
    "PRG-C007": lambda _: settings({"PERAGO_WORKER_ID_PREFIX": "-"}),
    "PRG-C008": lambda _: worker_child_specs(base_env={}, module_target="m", process_count=0),
    "PRG-C009": lambda _: check_services(
        loaded({}), [cast("Any", SimpleNamespace(has_workspace=False, metrics=object()))]
    ),
    "PRG-C010": lambda _: check_services(loaded({}), [IN_WORKSPACE]),
    "PRG-C011": lambda _: check_conductor(loaded({})),
    "PRG-C012": lambda _: open_conductor(ConductorConnection(url="no-such-scheme:x")),
    "PRG-C013": with_shared_root,
    "PRG-C016": two_workers,
    "PRG-C014": lambda _: executor_user_of(loaded({"PERAGO_EXECUTOR_USER": "0"})),
    "PRG-C015": lambda _: executor_python_of(loaded({"PERAGO_EXECUTOR_PYTHON": "/bin/false"})),
    "PRG-I001": lambda _: read_params(FREE, {}),
    "PRG-I002": lambda _: read_workspace_input({"workspace": {}, "params": {}}, strict=False),
    "PRG-I003": lambda _: read_params(FREE, {"params": {"a": "x"}}),
    "PRG-I004": lambda _: read_workspace_input({"workspace": None, "params": {}}, strict=False),
    "PRG-I005": lambda _: read_params(FREE, {"params": {}, "other": 1}, strict=True),
    "PRG-I007": lambda _: invoke_workspace_free_task(IN_WORKSPACE, {}),
    "PRG-I008": lambda _: read_workspace_input(
        {"workspace": PLACE | {"ref_type": "tag"}, "params": {}}, strict=False
    ),
    "PRG-I011": lambda _: validate_result(
        TaskDefinition("t", "o", plain, Model, FloatModel), {"f": float("nan")}
    ),
    "PRG-I013": lambda _: raising(PrefixValueError("song", "is empty")),
    "PRG-R001": lambda _: validate_result(FREE, {"a": "x"}),
    "PRG-R003": lambda _: check_stored_result(FREE, {"a": 1, "retired": 1}),
    "PRG-B001": lambda _: raising(TaskFailed("why")),
    "PRG-B002": lambda _: raising(TaskTerminalError("why")),
    "PRG-B004": lambda _: raising(KeyError("why")),
    "PRG-B005": lambda folder: take_checkpoint(folder, CheckpointTerms(refused="why")),
    "PRG-B006": lambda folder: take_checkpoint(folder, CheckpointTerms(out=str(folder / "out"))),
    "PRG-B007": lambda _: ask_after_the_end(),
    "PRG-G001": lambda folder: check_guardrails(folder, [require_file("a")], "pre"),
    "PRG-G002": lambda folder: check_guardrails(folder, [require_file("a")], "post"),
    "PRG-W002": with_odd_name,
    "PRG-W005": with_link,
    "PRG-X002": lambda _: raising(UnknownCodeError("PRG-0")),
    "PRG-X005": lambda _: failing_fetch(),
    "PRG-X003": lambda _: parse_address("repository"),
}


def failing_fetch() -> None:
    """Fail as a fetch does that finds no tool to build with."""
    with server_errors():
        raise FetchError("lakeFS", found="no Go", remedy="install one")


def ask_after_the_end() -> None:
    asker = ChangesAsker(lambda: None)
    asker.close()
    asker()


def take_checkpoint(folder: Path, terms: CheckpointTerms) -> None:
    """Ask for a checkpoint of one byte, where none may have any."""
    (folder / "state").write_text("x")
    CheckpointTaker(terms, lambda _: None)(folder / "state", None)


class Calling(BaseModel):
    """Holds what has no schema."""

    call: Callable[[], int]


class FloatModel(BaseModel):
    """Holds what JSON cannot."""

    f: float


@pytest.mark.parametrize("code", MISTAKES)
def test_a_mistake_is_answered_with_its_code(code: str, tmp_path: Path) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # each row has its own class
        MISTAKES[code](tmp_path)
    assert error_code(caught.value) == code
    retried = error_codes()[code].retried
    if retried is not Retried.DOES_NOT_APPLY:
        assert error_is_terminal(caught.value) == (retried is Retried.NO)


# Raised by the steps of an attempt and by workers; their own tests name them.
ELSEWHERE = {
    "PRG-T001",
    "PRG-C001",
    "PRG-B003",
    "PRG-I006",
    "PRG-I010",
    "PRG-I012",
    "PRG-R002",
    "PRG-R004",
    "PRG-G003",
}


def test_every_code_of_these_families_has_its_mistake() -> None:
    families = tuple(f"PRG-{letter}" for letter in "TCIRBG")
    ours = {code for code in error_codes() if code.startswith(families)}
    assert ours - set(MISTAKES) - ELSEWHERE == set()
