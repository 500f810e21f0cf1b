"""Definitions of tasks and workflows for tests, and reads of JSON values that came from a server.

`sequence` builds a workflow of tasks one after the other, `fork` one of tasks side by side,
`taskdef_of` a TaskDef, `renamed` a copy with names of its own for a shared server.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, cast

from perago.app.authoring import workflow_definition
from perago.app.authoring.task_declaration import task_of
from perago.app.authoring.task_definition import TaskDefinition, build_taskdef
from perago.app.runs.begin import BEGIN_TASK
from perago.app.runs.finish import BUILT_IN, FINISH_TASK
from perago.domain.attempt import AttemptRecord, as_mapping
from perago.domain.run import OnMoved


def as_list(value: object) -> list[object]:
    """The value when it is a JSON array, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


BUILT_MAX = 256  # test suites declare thousands of tasks, each used by one test
# A task is immutable and so is its TaskDef; the task is kept so that its id stays its own.
_BUILT: dict[int, tuple[TaskDefinition, Mapping[str, object]]] = {}
TaskFunction = Callable[..., object]
WorkflowSource = Mapping[str, object] | Sequence[Mapping[str, object]]
"""A workflow definition, or one with the definitions of its children behind it."""


def definition_of(task: TaskDefinition | TaskFunction) -> TaskDefinition:
    """The definition of a decorated function, or the definition itself."""
    return task if isinstance(task, TaskDefinition) else task_of(task)


def taskdef_of(task: TaskDefinition) -> Mapping[str, object]:
    """The TaskDef of a task, built once: its schemas are most of what a short test costs."""
    known = _BUILT.get(id(task))
    if known is None:
        if len(_BUILT) == BUILT_MAX:
            _BUILT.clear()
        known = _BUILT[id(task)] = (task, build_taskdef(task))
    return known[1]


def sequence(
    name: str,
    *tasks: TaskDefinition | TaskFunction,
    transaction: bool = False,
    on_moved: Literal["refuse", "rebase"] | None = None,
) -> dict[str, object]:
    """A workflow that runs tasks one after the other, each on the output of the one before.

    Its input is `workspace` and, for a task `x.y` that needs parameters, `params` under its
    reference name `x_y`. A transaction begins a run at that workspace and finishes it, or does what
    `on_moved` says when another writer has published on the target meanwhile.
    """
    found = [definition_of(task) for task in tasks]
    moved = _moved(on_moved, transaction=transaction)
    return workflow_definition.sequence_definition(
        name, found, transaction=transaction, on_moved=moved
    )


def fork(
    name: str,
    *tasks: TaskDefinition | TaskFunction,
    transaction: bool = False,
    on_moved: Literal["refuse", "rebase"] | None = None,
) -> list[dict[str, object]]:
    """A workflow that runs tasks side by side and joins them, and the workflow of each branch.

    Its input is that of `sequence`. On a real Conductor a fork survives the retries of its branches
    only where each of them is a workflow of its own.
    """
    found = [definition_of(task) for task in tasks]
    moved = _moved(on_moved, transaction=transaction)
    return workflow_definition.fork_definitions(
        name, found, transaction=transaction, on_moved=moved
    )


def _moved(on_moved: str | None, *, transaction: bool) -> OnMoved | None:
    if on_moved is not None and not transaction:
        raise ValueError(workflow_definition.needs_transaction("on_moved", "transaction=True"))
    return None if on_moved is None else OnMoved(on_moved)


def fork_branch(name: str, task: TaskDefinition | TaskFunction) -> dict[str, object]:
    """The workflow of one branch, for a FORK_JOIN_DYNAMIC: its input is `workspace`, `params`."""
    return workflow_definition.child_definition(name, definition_of(task))


def task_names_in(value: object) -> set[str]:
    """The task types and reference names in a definition, sub-workflows inside it included.

    Those in the input of a dynamic fork are found as well.
    """
    found: set[str] = set()
    _find_names(value, found)
    return found


def built_in_tasks_of(names: set[str]) -> list[TaskDefinition]:
    """The built-in tasks among the task types of a workflow."""
    return [task for task in BUILT_IN if task.name in names]


def _find_names(value: object, found: set[str]) -> None:
    mapping = as_mapping(value)
    if "taskReferenceName" in mapping:
        found.update((str(mapping.get("name")), str(mapping["taskReferenceName"])))
    for each in (*mapping.values(), *as_list(value)):
        _find_names(each, found)


def target_of(row: AttemptRecord) -> Mapping[str, object]:
    """Repository and branch that an attempt may publish to; for begin and finish the run's."""
    params = as_mapping(row.input_data.get("params"))
    match row.snapshot.task_type:
        case BEGIN_TASK.name:
            return params
        case FINISH_TASK.name:
            return as_mapping(params.get("run"))
        case _:
            return as_mapping(row.input_data.get("workspace"))


def published_workspace(row: AttemptRecord) -> Mapping[str, object]:
    """The workspace that an attempt put out; of the built-in tasks only finish publishes."""
    if row.snapshot.task_type == FINISH_TASK.name:
        return as_mapping(as_mapping(row.output_data.get("result")).get("workspace"))
    return as_mapping(row.output_data.get("workspace"))


def renamed(definition: Mapping[str, object], unique: Callable[[str], str]) -> dict[str, object]:
    """The definition with its own name and those of its sub-workflows made unique."""
    found = cast("dict[str, object]", _renamed(dict(definition), unique))
    return {**found, "name": unique(str(definition["name"]))}


def _renamed(value: object, unique: Callable[[str], str]) -> object:
    if isinstance(value, Mapping):
        copy = {
            key: _renamed(item, unique) for key, item in cast("Mapping[str, object]", value).items()
        }
        child = as_mapping(copy.get("subWorkflowParam"))
        if "name" in child:
            copy["subWorkflowParam"] = {**child, "name": unique(str(child["name"]))}
        if "forkTaskWorkflow" in copy:
            copy["forkTaskWorkflow"] = unique(str(copy["forkTaskWorkflow"]))
        return copy
    if isinstance(value, list):
        return [_renamed(item, unique) for item in cast("list[object]", value)]
    return value
