"""Each kind of workflow task, as the in-memory Conductor walks it: loops, forks, joins, waits.

`Walk` goes once over a workflow's definition. A function of `STEPS`, the table of the kinds that
are known, says whether the tasks behind its task may be scheduled; walking again changes nothing
until a row has changed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Never, TypeAlias

from perago.adapters.memory.conductor_rows import (
    MILLISECONDS_PER_SECOND,
    Spec,
    TaskRow,
    WorkflowRun,
    kind_of,
    name_in_loop,
    specs_in,
)
from perago.adapters.memory.conductor_state import (
    CHILD_ID,
    ConductorState,
    find_document,
    schedule_first,
)
from perago.adapters.memory.workflow_expressions import as_text, holds
from perago.domain.attempt import AttemptStatus, WorkflowStatus, as_mapping
from perago.ports.errors import RequestRefusedError

ITERATIONS_MAX = 10_000  # a loop without worker tasks whose condition stays true would hang a test


class WorkflowEnds(Exception):  # noqa: N818 - a signal inside the server, no error
    """Deciding found that the workflow is over."""

    def __init__(
        self, status: WorkflowStatus, reason: str, output: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.output = output


class Walk:
    """One walk over a workflow: finds the rows of its tasks, and adds those that come now.

    `start_child` starts the workflow that a row stands for. `forked` names the branches of the
    dynamic fork that was walked last, for the JOIN behind it.
    """

    def __init__(
        self,
        state: ConductorState,
        run: WorkflowRun,
        start_child: Callable[[TaskRow], WorkflowRun],
    ) -> None:
        self.state = state
        self.run = run
        self.start_child = start_child
        self.forked: list[str] = []

    def sequence(self, specs: Sequence[Spec], iteration: int = 0) -> bool:
        """Walk tasks in their order up to the first that is not done."""
        return all(STEPS[kind_of(spec)](self, spec, iteration) for spec in specs)

    def attempts(self, spec: Spec, iteration: int) -> list[TaskRow]:
        """The attempts of a task in one iteration, oldest first."""
        name = str(spec["taskReferenceName"])
        return self.run.attempts_of(name_in_loop(name, iteration))

    def reach(self, spec: Spec, iteration: int, status: AttemptStatus) -> tuple[TaskRow, bool]:
        """The newest attempt of a task, and whether this walk added it, with this status."""
        attempts = self.attempts(spec, iteration)
        if attempts:
            return attempts[-1], False
        return schedule_first(self.state, self.run, spec, iteration, status), True


# Whether the tasks behind this one may be scheduled; called with the walk, task and iteration.
Step: TypeAlias = Callable[[Walk, Spec, int], bool]


def walk_simple(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Schedule the first attempt once; afterwards wait for one that passes."""
    walk.reach(spec, iteration, AttemptStatus.SCHEDULED)
    return any(row.lets_pass for row in walk.attempts(spec, iteration))


def walk_do_while(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Walk the body of the present iteration; at its end ask the condition for another."""
    row, is_new = walk.reach(spec, iteration, AttemptStatus.IN_PROGRESS)
    if is_new:
        row.iteration = 1
        row.output_data = {"iteration": 1}
    body = specs_in(spec.get("loopOver"))
    for _ in range(ITERATIONS_MAX):
        if row.lets_pass:
            return row.leads_on or _walk_ended(walk, row, body)
        if row.status.is_terminal or not walk.sequence(body, row.iteration):
            return False
        _finish_iteration(walk, spec, row, body)
    raise AssertionError(f"{row.reference_name}: more than {ITERATIONS_MAX} iterations at once")


def _walk_ended(walk: Walk, row: TaskRow, body: Sequence[Spec]) -> bool:
    """Walk what a rerun brought back in an ended loop; what is behind it is not walked again."""
    for number in range(1, row.iteration + 1):
        if walk.attempts(body[0], number):
            walk.sequence(body, number)
    return False


def _finish_iteration(walk: Walk, spec: Spec, row: TaskRow, body: Sequence[Spec]) -> None:
    outputs: dict[str, object] = {}
    for task in body:
        passed = [attempt for attempt in walk.attempts(task, row.iteration) if attempt.lets_pass]
        if passed:
            outputs[str(task["taskReferenceName"])] = dict(passed[-1].output_data)
    row.output_data = {**row.output_data, str(row.iteration): outputs}

    def lookup(name: str) -> object:
        if name in row.input_data:
            return row.input_data[name]
        document = find_document(walk.run, name)
        return None if document is None else document["output"]

    if holds(str(spec.get("loopCondition", "false")), lookup):
        row.iteration += 1
        row.output_data = {**row.output_data, "iteration": row.iteration}
    else:
        row.status = AttemptStatus.COMPLETED


def walk_fork_join(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Walk all branches, also those behind one that waits; a fork itself is done at once."""
    _, forks_now = walk.reach(spec, iteration, AttemptStatus.COMPLETED)
    for branch in specs_in(spec.get("forkTasks")):
        tasks = specs_in(branch)
        # A branch whose first task a rerun of its sibling forgot is not begun again, and its JOIN
        # waits for ever: the server does the same.
        if forks_now or (tasks and walk.attempts(tasks[0], iteration)):
            walk.sequence(tasks, iteration)
    return True


def walk_fork_join_dynamic(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Walk every branch that the input named when the fork was reached, or one for each item."""
    row, _ = walk.reach(spec, iteration, AttemptStatus.COMPLETED)
    items = row.input_data.get("forkTaskInputs")
    if isinstance(items, list):
        branches = [_branch_of_item(row, item, number) for number, item in enumerate(items)]
    else:
        branches = _named_branches(row)
    for branch in branches:
        walk.sequence([branch], iteration)
    walk.forked = [str(branch["taskReferenceName"]) for branch in branches]
    return True


def _branch_of_item(row: TaskRow, item: object, number: int) -> Spec:
    """The same task, or the same child workflow, for one item: its input, with its number."""
    given = row.input_data
    child = given.get("forkTaskWorkflow")
    name = str(given.get("forkTaskName") or row.spec["taskReferenceName"])
    parameters = dict(item) if isinstance(item, Mapping) else {"input": item}
    branch: dict[str, object] = {
        "taskReferenceName": f"_{name}_{number}",
        "inputParameters": {**parameters, "__index": number},
    }
    if child is None:
        return {**branch, "name": name, "type": str(given.get("forkTaskType") or "SIMPLE")}
    version = str(given.get("forkTaskWorkflowVersion"))
    runs: dict[str, object] = {"name": child, "taskToDomain": parameters.get("taskToDomain")}
    if version.isdecimal():
        runs["version"] = int(version)
    return {**branch, "name": child, "type": "SUB_WORKFLOW", "subWorkflowParam": runs}


def _named_branches(row: TaskRow) -> list[Spec]:
    """The tasks of the input, each with the input that stands under its name."""
    spec = row.spec
    named = row.input_data.get(str(spec.get("dynamicForkTasksParam")))
    inputs = row.input_data.get(str(spec.get("dynamicForkTasksInputParamName")))
    if not isinstance(named, list) or not isinstance(inputs, Mapping):
        raise RequestRefusedError(
            f"{row.reference_name}: expected a list of tasks and an object of their inputs, "
            f"found {type(named).__name__} and {type(inputs).__name__}"
        )
    found: list[Spec] = []
    for task in specs_in(named):
        given = as_mapping(inputs.get(str(task["taskReferenceName"])))
        parameters = {**as_mapping(task.get("inputParameters")), **given}
        found.append({**task, "inputParameters": parameters})
    return found


def walk_join(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Wait for the named tasks of the same iteration."""
    named = spec.get("joinOn")
    names = [str(name) for name in named] if isinstance(named, list) and named else walk.forked
    row, is_new = walk.reach(spec, iteration, AttemptStatus.IN_PROGRESS)
    if is_new:
        row.input_data = {**row.input_data, "joinOn": list(names)}
    if row.lets_pass:
        return True
    outputs: dict[str, object] = {}
    for name in (name_in_loop(name, iteration) for name in names):
        passed = [row for row in walk.run.attempts_of(name) if row.lets_pass]
        if not passed:
            return False
        outputs[name] = dict(passed[-1].output_data)
    row.output_data = outputs
    row.status = AttemptStatus.COMPLETED
    return True


def walk_set_variable(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Set them at the first walk; later ones change nothing."""
    row, is_new = walk.reach(spec, iteration, AttemptStatus.COMPLETED)
    if is_new:
        walk.run.variables.update(row.input_data)
    return row.lets_pass


ENDS = {
    WorkflowStatus.COMPLETED: AttemptStatus.COMPLETED,
    WorkflowStatus.FAILED: AttemptStatus.FAILED,
    WorkflowStatus.TIMED_OUT: AttemptStatus.TIMED_OUT,
    WorkflowStatus.TERMINATED: AttemptStatus.CANCELED,
}


def walk_sub_workflow(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Start the child of the newest attempt once; afterwards end as the child did."""
    row, _ = walk.reach(spec, iteration, AttemptStatus.SCHEDULED)
    for each in walk.attempts(spec, iteration):  # a rerun brings back earlier ones as well
        if each.status is AttemptStatus.SCHEDULED:
            child = walk.start_child(each)
            each.status = AttemptStatus.IN_PROGRESS
            each.start_time = each.update_time = walk.state.now_ms
            each.poll_count += 1
            each.output_data = {CHILD_ID: child.workflow_id}
        if each.status is AttemptStatus.IN_PROGRESS:
            follow_child(walk.state, each)
    return row.lets_pass


def follow_child(state: ConductorState, row: TaskRow) -> None:
    """End a row as its child workflow ended; an open child changes nothing."""
    child = state.runs[str(row.output_data[CHILD_ID])]
    if not child.status.is_terminal:
        return
    row.output_data = {CHILD_ID: child.workflow_id, **child.output_data}
    row.status = ENDS[child.status]
    if row.status is AttemptStatus.COMPLETED:
        return
    row.reason = (
        f"Sub workflow {child.definition['name']}.{child.definition['version']}/"
        f"{child.workflow_id} failure reason: {child.reason}"
    )


def walk_switch(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Choose at the first walk; afterwards follow that choice."""
    row, is_new = walk.reach(spec, iteration, AttemptStatus.COMPLETED)
    if is_new:
        chosen = as_text(row.input_data.get(str(spec.get("expression"))))
        row.output_data = {"evaluationResult": [chosen], "selectedCase": chosen}
    cases, chosen = as_mapping(spec.get("decisionCases")), str(row.output_data["selectedCase"])
    return walk.sequence(specs_in(cases.get(chosen, spec.get("defaultCase"))), iteration)


def walk_terminate(walk: Walk, spec: Spec, iteration: int) -> Never:
    """End the workflow; what stands behind is never walked."""
    row = schedule_first(walk.state, walk.run, spec, iteration, AttemptStatus.COMPLETED)
    given = row.input_data.get("workflowOutput")
    output: Mapping[str, object] = {} if given is None else {"output": given}
    if isinstance(given, Mapping):
        output = {str(key): value for key, value in given.items()}
    row.output_data = output
    status = WorkflowStatus(str(row.input_data["terminationStatus"]))
    reason = row.input_data.get("terminationReason")
    if reason is None:
        reason = f"Workflow is {status} by TERMINATE task: {row.task_id}"
    raise WorkflowEnds(status, str(reason), output)


# The spellings that the server takes; a test that uses another one has to be told.
_DURATION = re.compile(
    r"\s*(?:(?P<d>\d+)\s*(?:days|day|d))?\s*(?:(?P<h>\d+)\s*(?:hours|hour|hrs|hr|h))?"
    r"\s*(?:(?P<m>\d+)\s*(?:minutes|minute|mins|min|m))?"
    r"\s*(?:(?P<s>\d+)\s*(?:seconds|second|secs|sec|s))?\s*",
    re.IGNORECASE,
)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def walk_wait(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Begin to wait; pass when the time has come, or a person has completed the row by the API."""
    row, _ = walk.reach(spec, iteration, AttemptStatus.IN_PROGRESS)
    wakes = wakes_at_ms(row)
    if wakes is not None and wakes <= walk.state.now_ms:
        row.status = AttemptStatus.COMPLETED
    return row.lets_pass


def wakes_at_ms(row: TaskRow) -> int | None:
    """When an open WAIT is over; None for other rows and for those that wait for a signal."""
    duration = row.input_data.get("duration")
    if kind_of(row.spec) != "WAIT" or row.status.is_terminal or duration is None:
        return None
    text = str(duration)  # such as `2 days 3 hours 4 minutes 5 seconds`, each part optional
    found = _DURATION.fullmatch(text)
    if found is None or not text.strip():
        raise RequestRefusedError(f"WAIT: {text!r} is no duration such as `10 seconds`")
    seconds = sum(int(found[unit] or 0) * seconds for unit, seconds in _SECONDS.items())
    return row.start_time + seconds * MILLISECONDS_PER_SECOND


STEPS: Mapping[str, Step] = MappingProxyType(
    {
        "SIMPLE": walk_simple,
        "FORK_JOIN": walk_fork_join,
        "JOIN": walk_join,
        "DO_WHILE": walk_do_while,
        "SWITCH": walk_switch,
        "SUB_WORKFLOW": walk_sub_workflow,
        "FORK_JOIN_DYNAMIC": walk_fork_join_dynamic,
        "SET_VARIABLE": walk_set_variable,
        "TERMINATE": walk_terminate,
        "WAIT": walk_wait,
        "HUMAN": walk_wait,
    }
)
