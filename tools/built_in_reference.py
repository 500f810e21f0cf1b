"""The reference page of the built-in tasks, whose tables come from their models."""

from collections.abc import Callable, Sequence
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.runs.begin import BEGIN_TASK
from perago.app.runs.finish import FINISH_TASK
from perago.app.runs.join import JOIN_TASK, WORKSPACES_MAX

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]

TEXTS = {
    BEGIN_TASK.name: (
        "`repository` and `branch` name the target of the run. The run starts from `ref`, a commit"
        " id in the history of first parents of the target, or from the head of the target. The"
        " first attempt decides on that base, and a retry"
        " goes on with the same run. A rerun begins another one.\n\n"
        "The base needs a publication fence that works. Without it the task fails and names the"
        " command that installs it.\n\n"
        "Give `workspace` to the first task of the run, each next task the `workspace` of the one"
        " before it, and `run` to `perago.finish`. In lakeFS, begin makes the hidden branch"
        " `perago-run-KEY` and the tag `perago-base-KEY`."
    ),
    FINISH_TASK.name: (
        "`workspace` is the output of the last task of the run, or of `perago.join`. It must be the"
        " head of the run branch. Finish publishes it on the target as one commit and puts out the"
        " target at this commit. Where no task has published, it writes nothing and puts out the"
        " base.\n\n"
        '`on_moved`: what to do when the target has moved since the run began. `"refuse"` fails'
        ' without a retry and says what moved. `"rebase"` publishes the run onto the new head if no'
        " path was changed on both sides, no new file of one side is a folder of the other, and"
        " nothing below `_lakefs_actions/` was changed.\n\n"
        '`history`: `"merge"` makes a commit with two parents, so that the commits of the tasks'
        ' stay reachable behind it; `"squash"` makes one with one parent. In both forms the history'
        " of first parents has one commit for each run.\n\n"
        "A retry publishes the same commit, or finds that it is published. Finish removes the run"
        " branch after Conductor has recorded its end.\n\n"
        "Until then the run is held: `perago runs REPO` lists such runs with their targets and the"
        " states of their workflows, `perago diff RUN` shows what one would change, object by"
        " object, and `perago abandon RUN` removes one whose workflow has ended."
    ),
    JOIN_TASK.name: (
        f"Of up to {WORKSPACES_MAX} workspaces on one branch the task picks the one whose history"
        " contains all others. Give it the workspaces of the branches of a fork, or the whole"
        " output of its JOIN, of which it takes every `workspace`. If there is no such workspace,"
        " it fails and names what was found on both sides."
    ),
}
HEAD = """# Built-in tasks

Every worker with a workspace task serves these task types itself, beside the tasks of its modules,
and `perago register` registers them. They have no task function. Their input has `params`, and
their output has `result`. Params that do not fit end the attempt for good (`PRG-I003`), and so do
params of begin and finish that their tables do not have. A lakeFS that is away lets them wait, as
it does any attempt ([operations](../operations.md#when-lakefs-or-conductor-is-away)).

A workflow between `perago.begin` and `perago.finish` is a run: its tasks publish on a branch of its
own, and the target shows all of it or nothing.

```json
{
  "name": "nightly",
  "version": 1,
  "schemaVersion": 2,
  "tasks": [
    {
      "name": "perago.begin",
      "taskReferenceName": "begin",
      "type": "SIMPLE",
      "inputParameters": {
        "params": {"repository": "${workflow.input.repository}", "branch": "main"}
      }
    },
    {
      "name": "orders.clean",
      "taskReferenceName": "clean",
      "type": "SIMPLE",
      "inputParameters": {
        "workspace": "${begin.output.result.workspace}",
        "params": {}
      }
    },
    {
      "name": "perago.finish",
      "taskReferenceName": "finish",
      "type": "SIMPLE",
      "inputParameters": {
        "params": {
          "run": "${begin.output.result.run}",
          "workspace": "${clean.output.workspace}"
        }
      }
    }
  ]
}
```
"""


def built_in_page(table: Table) -> str:
    """Return what each built-in task takes and puts out."""
    sections = [_section(task, table) for task in (BEGIN_TASK, FINISH_TASK, JOIN_TASK)]
    return "\n".join([HEAD, *sections])


def _section(task: TaskDefinition, table: Table) -> str:
    params = table(("params", "type", "default"), list(_fields(task.params_model)))
    result = table(
        ("result", "type"), [(name, kind) for name, kind, _ in _fields(task.output_model)]
    )
    text = TEXTS[task.name]
    return f"## {task.name}\n\n{task.description}\n\n{params}\n\n{result}\n\n{text}\n"


def _fields(model: type[BaseModel], outer: str = "") -> list[tuple[str, str, str]]:
    """Every field; those of models of our own one by one."""
    rows: list[tuple[str, str, str]] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and inner.__name__ == "RunReference":
            rows += _fields(inner, f"{outer}{name}.")
        else:
            rows.append((f"`{outer}{name}`", _kind(field), _default(field)))
    return rows


def _kind(field: FieldInfo) -> str:
    """A type as an author of workflows knows it."""
    kind = field.annotation
    if isinstance(kind, type) and kind.__name__.startswith("Workspace"):
        return "workspace"
    arguments = [each for each in get_args(kind) if each is not type(None)]
    if any(each.__name__.startswith("Workspace") for each in arguments):
        return "list of workspaces"
    if arguments:
        return " or ".join([*("text" for _ in arguments), "null"])
    values = getattr(kind, "__members__", None)
    return "text" if values is None else ", ".join(f'`"{each.value}"`' for each in values.values())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "none" if field.default is None else f'`"{field.default}"`'
