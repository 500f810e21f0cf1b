"""The decorator: what it refuses, in which order, with the texts of 0.6.1."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, cast

import pytest
from pydantic import BaseModel
from tests.kit_cases import counting_task

from perago.app.authoring.metrics import MetricRecorder
from perago.app.authoring.task_declaration import load_module_task, task, task_of
from perago.app.authoring.task_definition import MetricSpec, PublishBudget, TaskControls
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.errors import TaskDefinitionError
from perago.testing import PeragoEnvironment, sequence


class Params(BaseModel):
    """Params of every task here."""

    a: int = 1


class Result(BaseModel):
    """Result of every task here."""

    b: int = 1


NAMED = {"name": "n", "owner_email": "o"}
IN_WORKSPACE = NAMED | {"workspace": WorkspaceSpec()}
WITH_METRICS = NAMED | {"metrics": MetricSpec()}
WITH_BOTH = IN_WORKSPACE | WITH_METRICS
BUDGET = PublishBudget(
    observed_merge_p99_seconds=1,
    safety_margin_seconds=1,
    lakefs_merge_timeout_seconds=10,
    conductor_completion_timeout_seconds=1,
    worker_shutdown_grace_seconds=1,
    heartbeat_interval_seconds=1,
)
ONE_OF_FOUR = (
    "task function must be exactly (workspace: Path, params: ParamsModel),"
    " (workspace: Path, params: ParamsModel, metrics: MetricRecorder),"
    " (params: ParamsModel), or (params: ParamsModel, metrics: MetricRecorder)"
)
NAMES = "workspace task parameters must be named workspace and params"
AS_PATH = "workspace must be annotated as pathlib.Path"
NEEDS_SPEC = "workspace task functions require workspace=WorkspaceSpec(...)"
NO_SPEC = "workspace-free task functions must not declare workspace=WorkspaceSpec(...)"
NEEDS_METRICS = "metrics parameter requires metrics=MetricSpec(...)"
NO_METRICS = "metrics=MetricSpec(...) requires a metrics parameter"
AS_RECORDER = "metrics must be annotated as perago.MetricRecorder"
PARAMS_MODEL = "params must be annotated as a Pydantic BaseModel subclass"
RESULT_MODEL = "return value must be annotated as a Pydantic BaseModel subclass"
NO_STARS = "task function must not use *args, **kwargs, or keyword-only fields"


def declare(keywords: dict[str, Any], fn: Callable[..., Any]) -> Callable[..., Any]:
    untyped = cast("Callable[..., Callable[..., Callable[..., Any]]]", task)
    return untyped(**keywords)(fn)


def plain(params: Params) -> Result:
    return Result(b=params.a)


def in_workspace(workspace: Path, params: Params) -> Result:
    return Result(b=len(list(workspace.iterdir())) + params.a)


def with_metrics(params: Params, metrics: MetricRecorder) -> Result:
    metrics.gauge("a", params.a)
    return Result()


def with_both(workspace: Path, params: Params, metrics: MetricRecorder) -> Result:
    metrics.gauge(workspace.name, params.a)
    return Result()


@pytest.mark.parametrize(
    ("keywords", "fn"),
    [
        (NAMED, plain),
        (IN_WORKSPACE, in_workspace),
        (WITH_METRICS, with_metrics),
        (WITH_BOTH, with_both),
        (NAMED | {"name": "  spaced ünicode  "}, plain),
    ],
)
def test_the_decorated_function_is_the_function_itself(
    keywords: dict[str, Any], fn: Callable[..., Any]
) -> None:
    assert declare(keywords, fn) is fn
    definition = task_of(fn)
    assert (definition.name, definition.fn) == (keywords["name"], fn)
    assert (definition.params_model, definition.output_model) == (Params, Result)
    assert definition.has_workspace is ("workspace" in keywords)
    assert definition.controls == TaskControls()


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        (NAMED | {"name": ""}, "task name is required"),
        (NAMED | {"name": " "}, "task name is required"),
        (NAMED | {"name": None}, "task name is required"),
        (NAMED | {"name": "a/b"}, "task name must not contain path separators"),
        (NAMED | {"name": "a\\b"}, "task name must not contain path separators"),
        (NAMED | {"owner_email": " "}, "owner_email is required"),
        (NAMED | {"workspace": 1}, "workspace must be a WorkspaceSpec"),
        (NAMED | {"metrics": 1}, "metrics must be a MetricSpec"),
        (NAMED | {"controls": 1}, "controls must be a TaskControls"),
        (NAMED | {"strict_params": 1}, "strict_params must be a bool"),
        (
            NAMED | {"controls": TaskControls(publish_budget=BUDGET)},
            "publish_budget requires workspace=WorkspaceSpec(...)",
        ),
        (NAMED | {"name": "", "owner_email": "", "workspace": 1}, "task name is required"),
        (NAMED | {"owner_email": "", "workspace": 1}, "owner_email is required"),
    ],
    ids=str,
)
def test_the_keywords_are_checked_in_order(keywords: dict[str, Any], text: str) -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        declare(keywords, plain)
    assert str(caught.value) == text


def test_unknown_keywords_are_named_before_anything_is_decorated() -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        declare({"name": "", "owner_email": "", "params": 1, "output": 2}, plain)
    assert str(caught.value) == "unsupported task decorator fields: output, params"
    assert caught.value.code == "PRG-T002"


# Written as text: type checkers refuse most of these functions, as the decorator does.
WRONG = {
    "async def f(params: Params) -> Result": {
        "plain": "task function must be a synchronous function",
        "workspace": "task function must be a synchronous function",
    },
    "def f(*params: Params) -> Result": {"plain": NO_STARS, "both": NO_STARS},
    "def f(**params: Params) -> Result": {"plain": NO_STARS},
    "def f(*, params: Params) -> Result": {"plain": NO_STARS},
    "def f(params: Params, /) -> Result": {"plain": NO_STARS},
    "def f(params: Params = None) -> Result": {
        "plain": "task function parameters must not declare defaults"
    },
    "def f(params: 'Missing') -> Result": {
        "plain": "failed to resolve task type hints: name 'Missing' is not defined"
    },
    "def f() -> Result": {"plain": ONE_OF_FOUR, "both": ONE_OF_FOUR},
    "def f(a, b, c, d) -> Result": {"plain": ONE_OF_FOUR},
    "def f(ws: Path, params: Params) -> Result": {"plain": NAMES, "workspace": NAMES},
    "def f(params: Params, workspace: Path) -> Result": {"workspace": NAMES},
    "def f(workspace: str, params: Params) -> Result": {"plain": AS_PATH, "both": AS_PATH},
    "def f(workspace, params: Params) -> Result": {"workspace": AS_PATH},
    "def f(workspace: Path, params: Params) -> Result": {
        "plain": NEEDS_SPEC,
        "metrics": NEEDS_SPEC,
        "both": NO_METRICS,
    },
    "def f(workspace: Path, params: Params, m: MetricRecorder) -> Result": {
        "plain": NEEDS_SPEC,
        "both": "metrics-enabled task parameter must be named metrics",
    },
    "def f(workspace: Path, params: Params, metrics: int) -> Result": {
        "workspace": AS_RECORDER,
        "both": AS_RECORDER,
    },
    "def f(workspace: Path, params: Params, metrics: MetricRecorder) -> Result": {
        "metrics": NEEDS_SPEC,
        "workspace": NEEDS_METRICS,
    },
    "def f(params: Params, metrics: int) -> Result": {
        "plain": AS_RECORDER,
        "workspace": NO_SPEC,
        "metrics": AS_RECORDER,
    },
    "def f(params: Params, metrics: MetricRecorder) -> Result": {
        "plain": NEEDS_METRICS,
        "both": NO_SPEC,
    },
    "def f(p: Params) -> Result": {
        "plain": "workspace-free task parameter must be named params",
        "both": "workspace-free task parameter must be named params",
    },
    "def f(params: Params) -> Result": {
        "workspace": NO_SPEC,
        "metrics": NO_METRICS,
        "both": NO_SPEC,
    },
    "def f(params: dict) -> Result": {"plain": PARAMS_MODEL},
    "def f(params) -> Result": {"plain": PARAMS_MODEL},
    "def f(params: Params | None) -> Result": {"plain": PARAMS_MODEL},
    "def f(params: Params) -> dict": {"plain": RESULT_MODEL},
    "def f(params: Params)": {"plain": RESULT_MODEL},
    "def f(workspace: Path, params: dict) -> list": {"workspace": PARAMS_MODEL},
}
KEYWORDS: dict[str, dict[str, Any]] = {
    "plain": NAMED,
    "workspace": IN_WORKSPACE,
    "metrics": WITH_METRICS,
    "both": WITH_BOTH,
}


def function(head: str) -> Callable[..., Any]:
    names = {"Params": Params, "Result": Result, "Path": Path, "MetricRecorder": MetricRecorder}
    exec(f"{head}:\n    return Result()", names)  # noqa: S102  # a constant of this file
    return names["f"]


@pytest.mark.parametrize(
    ("head", "keywords", "text"),
    [
        pytest.param(head, keywords, text, id=f"{head} with {keywords}")
        for head, texts in WRONG.items()
        for keywords, text in texts.items()
    ],
)
def test_a_signature_is_refused_by_its_first_broken_rule(
    head: str, keywords: str, text: str
) -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        declare(KEYWORDS[keywords], function(head))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "head",
    [
        "def f(params: 'Params') -> 'Result'",
        "def f(params: Annotated[Params, 1]) -> Result",
    ],
)
def test_hints_may_be_text_or_annotated(head: str) -> None:
    names = {"Params": Params, "Result": Result, "Annotated": Annotated}
    exec(f"{head}:\n    return Result()", names)  # noqa: S102  # a constant of this file
    fn: Any = names["f"]
    assert task_of(declare(NAMED, fn)).params_model is Params


def module_with(name: str, *tasks: str) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(task=task, Params=Params, Result=Result)
    for line, each in enumerate(tasks):
        source = "\n" * line * 5 + (
            f"@task(name='{each}', owner_email='o')\n"
            "def f(params: Params) -> Result:\n    return Result()"
        )
        exec(source, vars(module))  # noqa: S102  # a constant of this file
    sys.modules[name] = module
    return module


def test_a_module_declares_exactly_one_task() -> None:
    module_with("declares_one", "one")
    assert load_module_task("declares_one").name == "one"


@pytest.mark.parametrize(
    ("name", "tasks", "text"),
    [
        ("declares_none", [], "declares_none does not declare a Perago task"),
        (
            "declares_two",
            ["one", "two"],
            "declares_two declares more than one Perago task",
        ),
    ],
)
def test_a_module_with_another_number_of_tasks_is_refused(
    name: str, tasks: list[str], text: str
) -> None:
    module_with(name, *tasks)
    with pytest.raises(TaskDefinitionError) as caught:
        load_module_task(name)
    assert str(caught.value) == text


def test_an_imported_task_belongs_to_the_module_that_declares_it() -> None:
    origin = module_with("origin_of_task", "one")
    vars(module_with("importer_of_task")).update(f=vars(origin)["f"])
    with pytest.raises(TaskDefinitionError, match="does not declare"):
        load_module_task("importer_of_task")


def test_a_module_that_is_read_again_still_declares_one_task() -> None:
    module_with("read_again", "one")
    module_with("read_again", "renamed")
    assert load_module_task("read_again").name == "renamed"


@pytest.mark.parametrize("target", ["", "a/b", "a.b:c", "a..b", "x.py-", " json", "tasks/x.py"])
def test_a_target_is_a_dotted_name(target: str) -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        load_module_task(target)
    assert str(caught.value) == (
        "module target must be a Python import path, not a file path or object path"
    )


def test_a_missing_module_is_the_import_error_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        load_module_task("no_such_module.at_all")


def test_an_undecorated_function_is_no_task() -> None:
    with pytest.raises(TaskDefinitionError, match="is not a Perago task"):
        task_of(print)


async def test_a_workflow_given_in_place_of_a_task_is_an_error_that_says_where_it_belongs(
    perago_env: PeragoEnvironment,
) -> None:
    flow = sequence("flow", counting_task()[0])
    with pytest.raises(TaskDefinitionError, match=r"register\(\), it to start\(\)") as raised:
        await perago_env.run(cast("Any", flow), await perago_env.repository())
    assert raised.value.code == "PRG-T014"
