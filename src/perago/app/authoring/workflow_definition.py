"""Conductor workflow definitions for tasks: one after the other, or side by side in a fork.

Every definition takes `workspace` and `params` as its input, with the params of each task under its
reference name. `perago workflow new` writes what is built here, and so does `perago.testing`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, TypeAlias

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import PLACEHOLDER
from perago.domain.errors import TaskDefinitionError
from perago.domain.paths import listing_prefix
from perago.domain.run import OnMoved

Definition: TypeAlias = dict[str, object]
WORKSPACE_OF_INPUT: Final = "${workflow.input.workspace}"
JOINED: Final = "joined"
# The built-in task types. Their tasks are made of more than authors declare, and live elsewhere.
JOIN, BEGIN, FINISH = "perago.join", "perago.begin", "perago.finish"
_CODE: Final = "PRG-T024"


def reference_of(task_name: str) -> str:
    """A reference name for a task type: dots and dashes would not survive expressions."""
    return task_name.replace(".", "_").replace("-", "_")


def needs_transaction(on_moved: str, transaction: str) -> str:
    """What is wrong with one option without the other, as the command and the kit spell them."""
    return f"{on_moved} needs {transaction}: only a transaction looks for that"


def sequence_definition(
    name: str,
    tasks: Sequence[TaskDefinition],
    *,
    transaction: bool = False,
    on_moved: OnMoved | None = None,
) -> Definition:
    """A workflow of tasks one after the other, each on the output of the one before.

    A transaction begins a run at the given workspace and finishes it, or does what `on_moved` says
    where the target has moved. Its output has the workspace on the target and the result of the
    last task, as that of another sequence has.
    """
    rows: list[Definition] = []
    workspace = _first_workspace(transaction=transaction)
    outputs: dict[str, object] = {}
    for reference, task in _named(tasks):
        outputs["result"] = f"${{{reference}.output.result}}"
        rows.append(_row(task, reference, workspace, f"${{workflow.input.params.{reference}}}"))
        if task.has_workspace:
            workspace = f"${{{reference}.output.workspace}}"
    if transaction:
        rows = [_begin(), *rows, _finish(workspace, on_moved)]
        outputs["workspace"] = _workspace_of(reference_of(FINISH))
        return {**_definition(name, tasks, rows), "outputParameters": outputs}
    return _definition(name, tasks, rows)


def fork_definitions(
    name: str,
    tasks: Sequence[TaskDefinition],
    *,
    transaction: bool = False,
    on_moved: OnMoved | None = None,
) -> list[Definition]:
    """A workflow of tasks side by side, then the workflow of each branch.

    A branch is a workflow of its own, because a JOIN takes a failure inside a branch for final
    although a retry follows; of a child workflow it sees nothing but the end. With several
    workspaces `perago.join` finds the newest of them. A transaction is one run around all.
    """
    _refuse_conflicts(tasks)
    named = list(_named(tasks, taken=("fork", "join", JOINED)))
    children = {reference: f"{name}_{reference}" for reference, _ in named}
    start = _first_workspace(transaction=transaction)
    branches = [[_branch(children[reference], task, reference, start)] for reference, task in named]
    rows: list[Definition] = [
        {**_system("FORK_JOIN", "fork"), "forkTasks": branches},
        {**_system("JOIN", "join"), "joinOn": list(children)},
    ]
    outputs: Definition = {"results": {each: f"${{{each}.output.result}}" for each in children}}
    sides = [f"${{{each}.output.workspace}}" for each, task in named if task.has_workspace]
    if len(sides) > 1:
        rows.append(_built_in(JOIN, JOINED, {"workspaces": sides}))
        sides = [_workspace_of(JOINED)]
    if transaction:
        rows = [_begin(), *rows, _finish(sides[0] if sides else start, on_moved)]
        sides = [_workspace_of(reference_of(FINISH))]
    if sides:
        outputs["workspace"] = sides[0]
    fork = {**_definition(name, tasks, rows), "outputParameters": outputs}
    return [fork, *(child_definition(children[each], task, each) for each, task in named)]


def child_definition(name: str, task: TaskDefinition, reference: str = "") -> Definition:
    """The workflow of one branch: its input has the workspace and the params of the one task."""
    reference = reference or reference_of(task.name)
    row = _row(task, reference, WORKSPACE_OF_INPUT, "${workflow.input.params}")
    parts = ("workspace", "result") if task.has_workspace else ("result",)
    outputs = {part: f"${{{reference}.output.{part}}}" for part in parts}
    return {**_definition(name, [task], [row]), "outputParameters": outputs}


def _definition(name: str, tasks: Sequence[TaskDefinition], rows: list[Definition]) -> Definition:
    definition: Definition = {"name": name, "version": 1, "schemaVersion": 2}
    if tasks:
        definition["ownerEmail"] = tasks[0].owner_email
    return {**definition, "inputParameters": ["workspace", "params"], "tasks": rows}


def _named(
    tasks: Sequence[TaskDefinition], taken: Sequence[str] = ()
) -> Iterator[tuple[str, TaskDefinition]]:
    """Each task with a reference name of its own, also one that is there twice."""
    counted = Counter(taken)
    for task in tasks:
        reference = reference_of(task.name)
        counted[reference] += 1
        number = counted[reference]
        yield (reference if number == 1 else f"{reference}_{number}"), task


def _row(task: TaskDefinition, reference: str, workspace: str, params: str) -> Definition:
    given: dict[str, object] = {"params": params}
    if task.has_workspace:
        given["workspace"] = workspace
    row: Definition = {"name": task.name, "taskReferenceName": reference, "type": "SIMPLE"}
    return {**row, "inputParameters": given}


def _branch(child: str, task: TaskDefinition, reference: str, workspace: str) -> Definition:
    row = _row(task, reference, workspace, f"${{workflow.input.params.{reference}}}")
    runs = {"name": child, "version": 1}
    return {**row, "name": child, "type": "SUB_WORKFLOW", "subWorkflowParam": runs}


def _first_workspace(*, transaction: bool) -> str:
    """What the first task works on: the run branch, or what the workflow was given."""
    return _workspace_of(reference_of(BEGIN)) if transaction else WORKSPACE_OF_INPUT


def _begin() -> Definition:
    parts = ("repository", "branch", "ref")
    given = {part: f"${{workflow.input.workspace.{part}}}" for part in parts}
    return _built_in(BEGIN, reference_of(BEGIN), given)


def _finish(workspace: str, on_moved: OnMoved | None) -> Definition:
    run = f"${{{reference_of(BEGIN)}.output.result.run}}"
    given = {"run": run, "workspace": workspace}
    if on_moved is not None:
        given["on_moved"] = on_moved.value
    return _built_in(FINISH, reference_of(FINISH), given)


def _built_in(name: str, reference: str, params: Mapping[str, object]) -> Definition:
    row: Definition = {"name": name, "taskReferenceName": reference, "type": "SIMPLE"}
    return {**row, "inputParameters": {"params": dict(params)}}


def _workspace_of(reference: str) -> str:
    """Where a built-in task has its workspace: it is a task without one of its own."""
    return f"${{{reference}.output.result.workspace}}"


def _system(kind: str, reference: str) -> Definition:
    return {"name": reference, "taskReferenceName": reference, "type": kind}


def _refuse_conflicts(tasks: Sequence[TaskDefinition]) -> None:
    """Refuse writers of which one is sure to be in the way of another.

    With isolation="branch" the first publication of the fork is the last one. A prefix with values
    of params may be another one each time, so that nothing can be said here.
    """
    writers = [task for task in tasks if task.workspace and not task.workspace.read_only]
    for one, other in combinations(writers, 2):
        assert one.workspace is not None, "only tasks with a workspace write"
        assert other.workspace is not None, "only tasks with a workspace write"
        for task in (one, other):
            if task.workspace is not None and task.workspace.isolation == "branch":
                text = f'{task.name} has isolation="branch", and {len(writers)} tasks of the fork'
                rest = 'publish; declare WorkspaceSpec(isolation="prefix")'
                raise TaskDefinitionError(f"{text} {rest}", code=_CODE)
        first, second = one.workspace.prefix, other.workspace.prefix
        if PLACEHOLDER.search(first + second) is None and _overlap(first, second):
            text = f"{one.name} and {other.name} publish below {first} and {second}"
            raise TaskDefinitionError(f"{text}; side by side they need two folders", code=_CODE)


def _overlap(one: str, other: str) -> bool:
    first, second = listing_prefix(one), listing_prefix(other)
    return first.startswith(second) or second.startswith(first)
