"""Shapes of task modules that are wrong: 0.6.1 and ours say the same, or why they do not."""

from tests.integration.surface_shapes import INNER, Shape, model, plain

LINES = "an import error is one line and the author's own frames; 0.6.1 shows a traceback"
CLEAR = "a wrong type is said in words; 0.6.1 fails with AttributeError"
NAMED = "name='n', owner_email='o'"
SPEC = "workspace=WorkspaceSpec()"


def declared(
    name: str, keywords: str, function: str = "def f(params: Params) -> Result: ..."
) -> Shape:
    """Return a task with these keywords on this function."""
    return Shape(name, f"@task({keywords})\n{function}\n")


def raised(name: str, text: str, ours: str) -> Shape:
    """Return a module whose import fails with something else than a declaration error."""
    return Shape(name, text, LINES, f"error: shape_{name} cannot be imported: {ours}")


BAD = [
    declared("unknown_keywords", f"{NAMED}, params=1, output=2"),
    declared("blank_name", "name=' ', owner_email='o'"),
    declared("slash_name", "name='a/b', owner_email='o'"),
    declared("blank_owner", "name='n', owner_email=''"),
    declared("wrong_workspace", f"{NAMED}, workspace='data'"),
    declared("wrong_metrics", f"{NAMED}, metrics=True"),
    declared("wrong_controls", f"{NAMED}, controls={{}}"),
    declared("wrong_strict", f"{NAMED}, strict_params='yes'"),
    declared(
        "budget_without_workspace",
        f"{NAMED}, controls=TaskControls(publish_budget=PublishBudget("
        "observed_merge_p99_seconds=1, safety_margin_seconds=1, lakefs_merge_timeout_seconds=9,"
        " conductor_completion_timeout_seconds=1, worker_shutdown_grace_seconds=1,"
        " heartbeat_interval_seconds=1))",
    ),
    declared("asynchronous", NAMED, "async def f(params: Params) -> Result: ..."),
    declared("star", NAMED, "def f(*params: Params) -> Result: ..."),
    declared("keyword_only", NAMED, "def f(*, params: Params) -> Result: ..."),
    declared("defaults", NAMED, "def f(params: Params = Params()) -> Result: ..."),
    declared("missing_hint", NAMED, "def f(params: 'Missing') -> Result: ..."),
    declared("no_parameters", NAMED, "def f() -> Result: ..."),
    declared("four_parameters", NAMED, "def f(a, b, c, d) -> Result: ..."),
    declared("other_name", NAMED, "def f(p: Params) -> Result: ..."),
    declared(
        "text_workspace", f"{NAMED}, {SPEC}", "def f(workspace: str, params: Params) -> Result: ..."
    ),
    declared(
        "swapped", f"{NAMED}, {SPEC}", "def f(params: Params, workspace: Path) -> Result: ..."
    ),
    declared("missing_spec", NAMED, "def f(workspace: Path, params: Params) -> Result: ..."),
    declared("needless_spec", f"{NAMED}, {SPEC}"),
    declared("missing_metrics", f"{NAMED}, metrics=MetricSpec()"),
    declared(
        "needless_metrics", NAMED, "def f(params: Params, metrics: MetricRecorder) -> Result: ..."
    ),
    declared(
        "wrong_recorder",
        f"{NAMED}, metrics=MetricSpec()",
        "def f(params: Params, metrics: int) -> Result: ...",
    ),
    declared("dict_params", NAMED, "def f(params: dict) -> Result: ..."),
    declared("optional_params", NAMED, "def f(params: Params | None) -> Result: ..."),
    declared("dict_result", NAMED, "def f(params: Params) -> dict: ..."),
    declared("no_result", NAMED, "def f(params: Params): ..."),
    Shape(
        "prefix_outside",
        f"@task({NAMED}, workspace=WorkspaceSpec(prefix='a/../b'))\n"
        "def f(params: Params) -> Result: ...\n",
        "a refused value is said in one line; 0.6.1 prints pydantic's four",
        "error: WorkspaceSpec: prefix: WorkspaceSpec.prefix must stay inside the repository",
    ),
    Shape("guardrail_outside", "GUARDRAIL = require_file('../a')\n"),
    Shape("root_params", "class P(RootModel[list[int]]): ...\n" + plain("root_params", "P")),
    Shape(
        "root_inside",
        "class L(RootModel[list[int]]): ...\n"
        + model("deep: dict[str, list[L]]")
        + plain("ri", "P"),
    ),
    Shape("no_task", INNER),
    Shape("imported_task", "from shape_minimal import f\n"),
    raised("no_module", "import no_such_module\n", "ModuleNotFoundError: No module named"),
    raised("syntax", "def (\n", "SyntaxError: invalid syntax"),
    raised("wrong_value", "raise ValueError('boom')\n", "ValueError: boom"),
    raised("boom", "raise RuntimeError('boom')\n", "RuntimeError: boom"),
    Shape(
        "name_none",
        "@task(name=None, owner_email='o')\ndef f(params: Params) -> Result: ...\n",
        CLEAR,
        "error: task name is required",
    ),
]

# Wrong for 0.6.1 and right for us: `check` takes every task of a module, `extract` wants one named.
ACCEPTED = [
    Shape(
        "two_tasks",
        plain("one") + plain("two").replace("def f", "def g"),
        "a module may declare several tasks; extract names them behind the text of 0.6.1",
    ),
]
