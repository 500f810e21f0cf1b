"""What an operator does to a workflow: define, pause, resume, retry, rerun, restart.

Which rows stay, which are forgotten and which are reset is decided here; what runs next is decided
by `workflow_decider`. `next_due_ms` is when time alone changes something next.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from perago.adapters.memory.conductor_rows import (
    MILLISECONDS_PER_SECOND,
    Spec,
    TaskRow,
    WorkflowRun,
)
from perago.adapters.memory.conductor_state import TASK_ID_NAME, ConductorState, schedule_next
from perago.adapters.memory.workflow_expressions import expressions_in
from perago.adapters.memory.workflow_step_kinds import wakes_at_ms
from perago.adapters.memory.workflow_walk import kind_of, specs_in
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.errors import RequestRefusedError

# Kinds that wait for other tasks: brought back they wait again, as the same row.
WAITING_KINDS = frozenset({"JOIN", "DO_WHILE"})
# How a row ended badly; a retry adds an attempt behind the newest of these.
REPEATABLE = frozenset(
    {
        AttemptStatus.FAILED,
        AttemptStatus.FAILED_WITH_TERMINAL_ERROR,
        AttemptStatus.TIMED_OUT,
        AttemptStatus.CANCELED,
    }
)


def pause(run: WorkflowRun) -> None:
    """Schedule nothing new; what is scheduled is still handed out."""
    if run.status.is_terminal:
        raise _refused(run, "has ended, its status cannot be updated")
    run.status = WorkflowStatus.PAUSED


def resume(run: WorkflowRun) -> None:
    """Undo a pause."""
    if run.status is not WorkflowStatus.PAUSED:
        raise _refused(run, "is not PAUSED, cannot resume")
    run.status = WorkflowStatus.RUNNING


def retry(state: ConductorState, run: WorkflowRun) -> None:
    """Add an attempt behind the newest of every task that ended badly, past any limit."""
    if not run.status.is_terminal:
        raise _refused(run, "is still running, cannot retry")
    newest = {row.reference_name: row for row in run.rows.values()}
    failed = [row for row in newest.values() if row.status in REPEATABLE]
    # Those that only wait go on beside the others; alone they give nothing to do.
    if all(kind_of(row.spec) in WAITING_KINDS for row in failed):
        raise _refused(run, "has no retryable tasks; use restart")
    _bring_back(state, run)
    for row in failed:
        if kind_of(row.spec) in WAITING_KINDS:
            row.status = AttemptStatus.IN_PROGRESS
        else:
            added = schedule_next(state, run, row, delay_ms=0, reason=None)
            if added is not None:  # both rows share one map while the server resolves it anew
                row.input_data = added.input_data


def rerun(
    state: ConductorState,
    run: WorkflowRun,
    from_task_id: str,
    task_input: Mapping[str, object] | None,
) -> None:
    """Run again from one row: it keeps its id and count, everything behind it is forgotten."""
    if not run.status.is_terminal:
        raise _refused(run, "is not in terminal state, unable to rerun")
    row = run.rows.get(from_task_id)
    if row is None:
        raise RequestRefusedError(f"task {from_task_id} not found in workflow {run.workflow_id}")
    for other in list(run.rows.values()):
        if other.seq > row.seq:
            state.forget(other)
        elif other.reference_name != row.reference_name:
            _take_along(state, other, row)
    _bring_back(state, run)
    if kind_of(row.spec) in {"SIMPLE", "SUB_WORKFLOW"}:
        _reset(state, row, task_input)
    else:
        state.forget(row)  # walking makes it anew


def restart(state: ConductorState, run: WorkflowRun) -> None:
    """Run again from the start under the same id; the rows are forgotten."""
    if not run.status.is_terminal:
        raise _refused(run, "is not in terminal state, unable to restart")
    for row in list(run.rows.values()):
        state.forget(row)
    run.output_data = {}
    run.ended_at = 0
    _bring_back(state, run)


def _take_along(state: ConductorState, other: TaskRow, row: TaskRow) -> None:
    """Every earlier row that ended badly runs again, also one that a later attempt made good.

    A loop that completed stays so: the server looks at it no more, and nothing follows its body.
    """
    if other.status not in REPEATABLE:
        other.leads_on = other.leads_on and not (
            kind_of(other.spec) == "DO_WHILE" and row.iteration
        )
        return
    other.reason = None
    other.start_time = state.now_ms
    if kind_of(other.spec) not in WAITING_KINDS:
        other.status = AttemptStatus.SCHEDULED
        if other.is_queued_type:
            state.enqueue(other)
        return
    other.status = AttemptStatus.IN_PROGRESS
    if kind_of(other.spec) == "DO_WHILE" and row.iteration:
        later = {str(count) for count in range(row.iteration + 1, other.iteration + 1)}
        kept = {key: value for key, value in other.output_data.items() if key not in later}
        other.iteration = row.iteration
        other.output_data = {**kept, "iteration": row.iteration}


def _reset(state: ConductorState, row: TaskRow, task_input: Mapping[str, object] | None) -> None:
    row.status = AttemptStatus.SCHEDULED
    row.poll_count = 0
    row.start_time = row.update_time = 0
    # On a server time has passed since; here the clock may stand still.
    row.scheduled_time = max(state.now_ms, row.scheduled_time + 1)
    row.retried = False
    row.output_data = {}
    row.output_is_offloaded = False
    if task_input is not None:
        row.input_data = dict(task_input)
    if row.is_queued_type:
        state.enqueue(row)


def _bring_back(state: ConductorState, run: WorkflowRun) -> None:
    """Set an ended workflow running, and the ones it is a part of.

    A retry of the parent's row has begun another child, so this one is no part of it any more.
    """
    run.status = WorkflowStatus.RUNNING
    run.reason = None
    run.start_time = state.now_ms
    if run.parent is None:
        return
    parent = state.runs.get(run.parent[0])
    row = None if parent is None else parent.rows.get(run.parent[1])
    if parent is not None and row is not None and not row.retried:
        row.status = AttemptStatus.IN_PROGRESS
        if parent.status.is_terminal:
            _bring_back(state, parent)


def _refused(run: WorkflowRun, why: str) -> RequestRefusedError:
    name = run.definition["name"]
    return RequestRefusedError(f"workflow {name}/{run.workflow_id} ({run.status}) {why}")


# No expression is taken: the server checks it when the workflow is defined.
TERMINATION_STATUSES = frozenset({"COMPLETED", "FAILED", "TERMINATED"})


def check_definition(definition: Spec, kinds: Collection[str]) -> dict[str, object]:
    """Refuse a definition that could not run; else the definition with its version."""
    name = definition.get("name")
    specs = list(specs_of(definition))
    if not isinstance(name, str) or not name or not specs:
        raise RequestRefusedError("a workflow definition needs a name and at least one task")
    for spec in specs:
        _check_spec(spec, kinds)
    counted = Counter(str(spec["taskReferenceName"]) for spec in specs)
    if twice := [reference for reference, count in counted.items() if count > 1]:
        raise RequestRefusedError(f"{name}: taskReferenceName should be unique: {twice}")
    for spec in specs:
        for path in expressions_in(spec.get("inputParameters")):
            if path[0] not in {"workflow", TASK_ID_NAME, *counted}:
                raise RequestRefusedError(
                    f"{name}: task {spec['taskReferenceName']} refers to {path[0]!r}, "
                    "which is not defined in the workflow definition"
                )
    return {"version": 1, **definition}


def specs_of(definition: Spec) -> Iterator[Spec]:
    """Every task of a definition, the ones inside others included."""
    yield from _flatten(definition.get("tasks"))


def _flatten(tasks: object) -> Iterator[Spec]:
    for spec in specs_in(tasks):
        yield spec
        yield from _flatten(spec.get("loopOver"))
        yield from _flatten(spec.get("defaultCase"))
        for branch in specs_in(spec.get("forkTasks")):
            yield from _flatten(branch)
        cases = spec.get("decisionCases")
        for case in cases.values() if isinstance(cases, Mapping) else ():
            yield from _flatten(case)


def _check_spec(spec: Spec, kinds: Collection[str]) -> None:
    for field in ("name", "taskReferenceName"):
        if not isinstance(spec.get(field), str) or not spec[field]:
            raise RequestRefusedError(f"a task of a workflow needs {field}, found {spec}")
    if kind_of(spec) not in kinds:
        raise RequestRefusedError(
            f"task {spec['taskReferenceName']}: the in-memory Conductor runs "
            f"{', '.join(sorted(kinds))}, found {kind_of(spec)}; run it on a real server"
        )
    if kind_of(spec) == "TERMINATE" and _termination_status(spec) not in TERMINATION_STATUSES:
        raise RequestRefusedError(
            f"terminate task must have a terminationStatus parameter and must be set to COMPLETED "
            f"or FAILED, taskName: {spec['name']}"
        )
    if kind_of(spec) == "SWITCH" and spec.get("evaluatorType") != "value-param":
        raise RequestRefusedError(
            f"task {spec['taskReferenceName']}: expected evaluatorType value-param, "
            f"found {spec.get('evaluatorType')}; the in-memory Conductor runs no scripts"
        )


def _termination_status(spec: Spec) -> object:
    parameters = spec.get("inputParameters")
    return parameters.get("terminationStatus") if isinstance(parameters, Mapping) else None


def next_due_ms(state: ConductorState) -> int | None:
    """The next moment at which a row is due or its time is over; None when there is none."""
    times = [time for time in _times(state) if time > state.now_ms]
    return min(times, default=None)


def _times(state: ConductorState) -> Iterator[int]:
    yield from state.queued_times_ms()
    for run in state.runs.values():
        if run.status is WorkflowStatus.RUNNING:
            yield from _end_of(run)
            for row in run.open_rows():
                yield from _ends_of(row)


def _end_of(run: WorkflowRun) -> Iterator[int]:
    seconds = run.definition.get("timeoutSeconds")
    if isinstance(seconds, int) and seconds > 0:
        yield run.start_time + seconds * MILLISECONDS_PER_SECOND


def _ends_of(row: TaskRow) -> Iterator[int]:
    """When a row's time-outs are due, and when it wakes by itself."""
    wakes = wakes_at_ms(row)
    if wakes is not None:
        yield wakes
    if not row.is_queued_type:
        return
    settings = row.settings
    limits = (
        (settings.response_timeout_seconds, row.update_time, AttemptStatus.IN_PROGRESS),
        (
            settings.poll_timeout_seconds,
            row.scheduled_time + row.start_delay_ms,
            AttemptStatus.SCHEDULED,
        ),
        (settings.timeout_seconds, row.start_time + row.start_delay_ms, AttemptStatus.IN_PROGRESS),
    )
    for seconds, since, status in limits:
        if seconds > 0 and row.status is status:
            yield since + seconds * MILLISECONDS_PER_SECOND
