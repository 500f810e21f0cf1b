"""Write the reference pages from the code they describe; a test keeps them equal."""

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from typer import Typer

from perago.app.authoring import guardrails, task_definition, workspace_spec
from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import CONTROL_FIELD_MAP
from perago.app.command_line.program import COMMANDS, find_command, program
from perago.app.settings.settings import DEFAULT, DEFAULT_ROOT, VARIABLES, Settings
from perago.domain.error_codes import error_codes
from tools.built_in_reference import built_in_page
from tools.kit_reference import kit_page
from tools.task_reference import (
    FLOW,
    PREFIX,
    attempt_rows,
    attempt_section,
    checks_section,
    workspace_section,
)

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EXIT_CODES = (
    ("0", "done"),
    ("1", "failed; `check`, `extract` and `start` use it for every failure, as in 0.6.1"),
    ("2", "wrong usage"),
    ("3", "wrong or missing configuration"),
    ("4", "fenced: the attempt is stale, or the branch has moved"),
    ("5", "the outcome is unknown"),
    ("6", "a service did not do what it was asked; what another one knows is printed all the same"),
)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines
    )


ERRORS = """# Error codes

Every error has a stable code. `perago explain CODE` prints what this page says of it, and
`perago explain` lists all codes. The letter of a code is its family.

Severity says what you have to do. `info`: nothing. `warning`: nothing yet, a retry may succeed
without any change. `error`: change something. `critical`: look at the branch before its data is
used.

Retried says whether Perago lets Conductor retry the attempt; how often that happens is in the
TaskDef. `no`: the attempt ends with `FAILED_WITH_TERMINAL_ERROR`, because a retry would meet the
same. `not under settled`: it ends so only under policy settled. `does not apply`: no attempt ends
with this code.
"""


def errors_page() -> str:
    """Return every code with all that is known of it."""
    rows = "\n".join(
        f"\n## {row.code}\n\n{row.cause}\n\n{row.text}\n\nRemedy: {row.remedy}\n\n"
        f"Family {row.family}, severity {row.severity}, retried: {row.retried}. More: "
        f"[{row.page}]({os.path.relpath(ROOT / row.page, DOCS)})"
        for row in error_codes().values()
    )
    return f"{ERRORS}{rows}\n"


def configuration_page() -> str:
    """Return every setting with its default."""
    rows: list[tuple[str, str, str]] = []
    for each in Settings.of(()).shown():
        text = each.text.replace(str(DEFAULT_ROOT), "<state directory>/perago")
        assert each.origin == DEFAULT
        name = f"`{each.name}`" + (" (secret)" if VARIABLES[each.name] else "")
        rows.append((name, f"`{text}`" if text else "", f"{each.about}."))
    return f"""# Configuration

Perago takes each setting from the first of these that has it: a flag, the environment, `.env` in
the current directory, `[tool.perago]` in `pyproject.toml`, the default. To see every value and
where it comes from, run `perago config show --origin`; it masks secrets.

{table(("Name", "Default", "What it is"), rows)}

- A size is a number with KB, MB or GB, of 1024: `512KB`, `1.5GB`. A duration is a whole number with
  s, m, h or d: `30s`, `24h`. A retention of logs is in days: `30d`. A switch is `true` or `false`
  (also 1 and 0, yes and no, on and off).
- The servers have two names each. Use `PERAGO_CONDUCTOR` and `PERAGO_LAKEFS`, as every page does.
  They win over `CONDUCTOR_SERVER_URL` and `LAKECTL_SERVER_ENDPOINT_URL` wherever the four are set,
  also when they are in `.env` and the others in the environment.
- In `.env` write `KEY=value` or `export KEY=value`. Perago removes one pair of quotes and expands
  no variables.
- In `[tool.perago]` write the names in lower case without `PERAGO_`, with `-` or `_`, for example
  `strict-input = true`. Perago refuses secrets there.
- To keep a secret in a file, add `_FILE` to the name, for example
  `LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY_FILE=/run/secrets/lakefs`.
- If none of the three `LAKECTL_` names is set, Perago reads `~/.lakectl.yaml`. If `PERAGO_LAKEFS`
  has another address than that file, Perago does not use the file.
- Proxy variables work as in other HTTP clients: lower case names too, `ALL_PROXY` for both schemes,
  and `NO_PROXY` with names, domains, networks and ports.
- Spark options: `PERAGO_SPARK_CONF_spark_executor_memory=4g` is `spark.executor.memory`; a
  doubled underscore is one underscore. In `pyproject.toml`: `[tool.perago.spark-conf]`.
- `<state directory>` is `XDG_STATE_HOME`, or else `~/.local/state`. A user who cannot write there,
  as in many containers, gets `/tmp/perago-<number of the user>` in place of
  `<state directory>/perago`. Records and locks of a worker are in its workspace root, the cache too
  unless `PERAGO_CACHE_DIR` is set. Perago does not use `XDG_RUNTIME_DIR`, because it is in memory
  and is deleted when the user logs out.
- The two roots and `PERAGO_CACHE_DIR` must belong to the worker's user (or root), and other users
  must not be able to write to them. The same holds for every directory above, except sticky ones
  like `/tmp` and mounted volumes. Otherwise Perago does not start (`PRG-C013`).
- OpenTelemetry itself reads `OTEL_` variables that are not listed.
- A blank value counts as not set, with two exceptions: a blank root is the current directory, and
  Perago refuses a blank worker id prefix.
"""


def command_line_page() -> str:
    """Return the help of every command."""
    helps = "\n\n".join(
        f"## perago {name}\n\n```text\n{_help(name)}\n```" for name in command_names()
    )
    return f"""# Command line

Commands print data to stdout and everything else to stderr, without colours. `--json` prints one
document whose `schema` has a version. Modules in the current directory can be imported.

```text
{_help("")}
```

{table(("Exit code", "Meaning"), EXIT_CODES)}

{helps}
"""


DECLARING = """# Declaring tasks

A task is a function with one of four signatures,
`(workspace: Path, params: P)`, `(workspace: Path, params: P, metrics: MetricRecorder)`,
`(params: P)`, `(params: P, metrics: MetricRecorder)`, where `P` and the result are pydantic
models. A task whose bytes go through Spark has `workspace: SparkWorkspace` instead of the path;
see [Spark](../spark.md). The decorator returns the function itself.

A module may declare several tasks. `check`, `register`, `start` and `dev` take all of them; `run`
and `extract` take one, which `--task NAME` chooses. `load_module_task` expects exactly one.
"""


KEYWORDS = {
    "name": "The task type in Conductor. Workers poll by it.",
    "owner_email": "Who owns the TaskDef; Conductor wants an address.",
    "description": "What the TaskDef says of the task.",
    "workspace": "The folder that the task works on. Without it the task has no workspace.",
    "metrics": "Which metrics are recorded. `None`: all of them.",
    "controls": "Retries, time-outs, limits, policy. `None`: the defaults below.",
    "strict_params": "Whether unknown params are refused. Otherwise they are dropped.",
}


def task_page() -> str:
    """Return the decorator and the models it takes."""
    keywords = [
        (
            f"`{name}`",
            "required" if each.default is each.empty else f"`{each.default!r}`",
            KEYWORDS[name],
        )
        for name, each in inspect.signature(task).parameters.items()
        if each.kind is each.KEYWORD_ONLY
    ]
    models: Sequence[type[BaseModel]] = (
        workspace_spec.WorkspaceSpec,
        task_definition.TaskControls,
        task_definition.RetryPolicy,
        task_definition.TimeoutPolicy,
        task_definition.ExecutionLimits,
        task_definition.PublishBudget,
        task_definition.MetricSpec,
        workspace_spec.WorkspaceInput,
    )
    meanings = [
        (f"`{each.__name__}{_signature(each)}`", inspect.getdoc(each) or "")
        for each in (
            guardrails.require_file,
            guardrails.require_dir,
            guardrails.require_glob,
            guardrails.forbid_glob,
        )
    ]
    return f"""{DECLARING}
## @task

{table(("Keyword", "Default", "Meaning"), keywords)}

## Guardrails

Paths are relative to the prefix. In a pattern `**` stands for directories only and does not
follow links, on every version of Python. The attempt marker and `_lakefs_actions/` never match.

{table(("Guardrail", "Meaning"), meanings)}

{checks_section()}
{chr(10).join(_model_section(model) for model in models)}
{PREFIX}
{workspace_section()}
{attempt_section()}
{table(("Part", "Meaning"), attempt_rows())}
"""


def taskdef_page() -> str:
    """Return where each field of a TaskDef comes from."""
    controls = task_definition.TaskControls()
    rows = [
        ("`name`", "`name`", ""),
        ("`ownerEmail`", "`owner_email`", ""),
        ("`description`", "`description`", "omitted"),
    ]
    for key, path in CONTROL_FIELD_MAP.items():
        value: Any = controls
        for step in path:
            value = getattr(value, step)
        source = "timeout.response_seconds" if key == "responseTimeoutSeconds" else ".".join(path)
        rows.append(
            (f"`{key}`", f"`controls.{source}`", "omitted" if value is None else f"`{value}`")
        )
    rows += [
        ("`inputKeys`", "kind of task", "`[workspace, params]` or `[params]`"),
        ("`outputKeys`", "kind of task", "`[workspace, result]` or `[result]`"),
        ("`inputSchema`", "params model", ""),
        ("`outputSchema`", "result model", ""),
    ]
    return f"""# TaskDef

`perago extract MODULE -o FILE.json` writes it, `perago register MODULE...` stores it in
Conductor. The keys come in this order.

{table(("Field", "From", "Default"), rows)}

- The input object is open. `params` and every object inside are open, or closed with
  `strict_params=True`; the workspace, the output and the result are closed.
- Models are inlined; what a model says about itself (title, docstring, extras) is left out, what
  a field says is kept. Recursive models stay definitions under `$defs`.
- A result is described as it is read, unless the model writes itself in another shape (computed
  fields, aliases of one side, serializers); then it is described as it is written.
- The workspace takes `refType` or `ref_type`; one of them is required.
- Not written: prefix, guardrails, checks, budget, metrics, policies, credentials.

{FLOW}"""


def _model_section(model: type[BaseModel]) -> str:
    meanings = _meanings(model)
    rows = [
        (
            f"`{name}`",
            f"`{_annotation(field.annotation)}`",
            _default(field.get_default(call_default_factory=True)),
            meanings[name],
        )
        for name, field in model.model_fields.items()
    ]
    return (
        f"## {model.__name__}\n\n{inspect.getdoc(model)}\n\n"
        f"{table(('Field', 'Type', 'Default', 'Meaning'), rows)}\n"
    )


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring below each field; a field without one is a KeyError of the page."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__[: model.__mro__.index(BaseModel)]):
        (declared,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(declared, ast.ClassDef), "the source of a class"
        for field, below in pairwise(declared.body):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                assert isinstance(field.target, ast.Name), "a field has a name"
                found[field.target.id] = str(ast.literal_eval(below.value))
    return found


def _annotation(annotation: object) -> str:
    arguments = get_args(annotation)
    if get_origin(annotation) in {Union, UnionType}:
        return " | ".join(_annotation(each) for each in arguments)
    if get_origin(annotation) is Annotated:
        return _annotation(arguments[0])
    if annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not arguments:
        return annotation.__name__
    return re.sub(r"(typing|perago(\.\w+)*)\.", "", str(annotation))


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "required"
    return f"`{type(value).__name__}()`" if isinstance(value, BaseModel) else f"`{value!r}`"


def _signature(function: Callable[..., object]) -> str:
    signature = str(inspect.signature(function)).split(" ->", maxsplit=1)[0]
    return signature.replace("os.PathLike[str]", "PathLike")


def command_names() -> list[str]:
    """Return every command as it is called, those of groups with their group."""
    names: list[str] = []
    for row in COMMANDS:
        found = find_command(row)
        if isinstance(found, Typer):
            names += [f"{row.name} {each.name}" for each in found.registered_commands]
        else:
            names.append(row.name)
    return names


def _help(name: str) -> str:
    out = StringIO()
    with redirect_stdout(out):
        program().main(
            [*name.split(), "--help"],
            prog_name="perago",
            standalone_mode=False,
            max_content_width=96,
            terminal_width=96,
        )
    return textwrap.dedent(out.getvalue()).strip()


PAGES: dict[str, Callable[[], str]] = {
    "errors.md": errors_page,
    "reference/configuration.md": configuration_page,
    "reference/command-line.md": command_line_page,
    "reference/task.md": task_page,
    "reference/taskdef.md": taskdef_page,
    "reference/built-in-tasks.md": lambda: built_in_page(table),
    "reference/testing.md": kit_page,
}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (DOCS / page).parent.mkdir(exist_ok=True)
        (DOCS / page).write_text(write(), encoding="utf-8")
        print(f"wrote {page}")
