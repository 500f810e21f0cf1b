"""What the in-memory Conductor does next: retries, time-outs, and the walk over a workflow.

`settle_failures` gives a failed attempt its retry or ends the workflow, `check_rows` and
`check_workflow` apply time-outs, `decide` does all of it until nothing changes.
"""

from collections.abc import Mapping
from typing import Never

from perago.adapters.memory.conductor_rows import (
    MILLISECONDS_PER_SECOND,
    PASSING,
    Spec,
    TaskRow,
    TaskSettings,
    TimeoutPolicy,
    WorkflowRun,
    retry_delay_ms,
    task_settings,
)
from perago.adapters.memory.conductor_state import ConductorState, schedule_next
from perago.adapters.memory.workflow_step_kinds import STEPS, follow_child
from perago.adapters.memory.workflow_verbs import specs_of
from perago.adapters.memory.workflow_walk import Walk, WorkflowEnds, end_workflow, specs_in
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.errors import MissingError

# FAILED_WITH_TERMINAL_ERROR and a worker's CANCELED get no retry on the server.
RETRIABLE = frozenset({AttemptStatus.FAILED, AttemptStatus.TIMED_OUT})


def settle_failures(state: ConductorState, run: WorkflowRun) -> list[tuple[TaskRow, AttemptStatus]]:
    """Settle every attempt that ended badly; returns the forgiven ones with what they were.

    FAILED, TIMED_OUT with retries left   a new attempt
    anything else of an optional task     COMPLETED_WITH_ERRORS, the workflow goes on
    FAILED, terminal error                the workflow is FAILED
    TIMED_OUT                             the workflow is TIMED_OUT
    CANCELED by a worker                  the workflow is TERMINATED
    """
    forgiven: list[tuple[TaskRow, AttemptStatus]] = []
    for row in list(run.rows.values()):
        if not row.status.is_terminal or row.status in PASSING or row.retried:
            continue
        if row.status in RETRIABLE and row.retry_count < _retries_max(row):
            delay = retry_delay_ms(row.settings, row.retry_count, state.random.random())
            schedule_next(state, run, row, delay_ms=delay, reason=row.reason)
        elif row.spec.get("optional") is True:
            forgiven.append((row, row.status))
            row.status = AttemptStatus.COMPLETED_WITH_ERRORS
        else:
            _end(row)
    return forgiven


def _end(row: TaskRow) -> Never:
    match row.status:
        case AttemptStatus.TIMED_OUT:
            status = WorkflowStatus.TIMED_OUT
        case AttemptStatus.CANCELED:
            status = WorkflowStatus.TERMINATED
        case _:
            status = WorkflowStatus.FAILED
    why = "null" if row.reason is None else row.reason
    raise WorkflowEnds(
        status, f"Task {row.task_id} failed with status: {status} and reason: '{why}'"
    )


def _retries_max(row: TaskRow) -> int:
    """The workflow's own count wins; kinds that no worker polls are retried only by hand."""
    own = row.spec.get("retryCount")
    if isinstance(own, int):
        return own
    return row.settings.retry_count if row.is_queued_type else 0


def check_workflow(state: ConductorState, run: WorkflowRun) -> None:
    """End a workflow that ran longer than its definition allows.

    Under the other policy, ALERT_ONLY, the server lets it run.
    """
    seconds = run.definition.get("timeoutSeconds")
    policy = run.definition.get("timeoutPolicy")
    if not isinstance(seconds, int) or seconds <= 0 or policy != TimeoutPolicy.TIME_OUT_WF:
        return
    elapsed = state.now_ms - run.start_time
    if elapsed >= seconds * MILLISECONDS_PER_SECOND:
        reason = _reason(
            "Workflow timed out", "Timeout", elapsed, seconds, TimeoutPolicy.TIME_OUT_WF
        )
        raise WorkflowEnds(WorkflowStatus.TIMED_OUT, reason)


def check_rows(state: ConductorState, run: WorkflowRun) -> None:
    """Mark the rows whose time is over; the execution time-out comes first.

    A retried row has its next attempt already, so its time decides nothing.
    """
    for row in run.open_rows():
        if row.is_queued_type and not row.retried:
            _check_execution(state, row)
            _check_polling(state, row)
            _check_response(state, row)


def _check_execution(state: ConductorState, row: TaskRow) -> None:
    """Heartbeats do not move it: it counts from the start of the attempt."""
    seconds = row.settings.timeout_seconds
    if seconds <= 0 or row.start_time == 0 or row.status.is_terminal:
        return
    elapsed = state.now_ms - row.start_time - row.start_delay_ms
    if elapsed >= seconds * MILLISECONDS_PER_SECOND:
        policy = row.settings.timeout_policy
        _apply(state, row, _reason("Task timed out", "Timeout", elapsed, seconds, policy))


def _check_polling(state: ConductorState, row: TaskRow) -> None:
    seconds = row.settings.poll_timeout_seconds
    if seconds <= 0 or row.status is not AttemptStatus.SCHEDULED:
        return
    elapsed = state.now_ms - row.scheduled_time - row.start_delay_ms
    if elapsed >= seconds * MILLISECONDS_PER_SECOND:
        policy = row.settings.timeout_policy
        _apply(state, row, _reason("Task poll timed out", "Poll timeout", elapsed, seconds, policy))


def _check_response(state: ConductorState, row: TaskRow) -> None:
    """Counts from the last heartbeat and is retried whatever the time-out policy says."""
    seconds = row.settings.response_timeout_seconds
    if seconds <= 0 or row.status is not AttemptStatus.IN_PROGRESS:
        return
    if state.now_ms - row.update_time >= seconds * MILLISECONDS_PER_SECOND:
        reason = f"responseTimeout: {seconds} exceeded for the taskId: {row.task_id}"
        _mark(state, row, f"{reason} with Task Definition: {row.task_type}")


def _apply(state: ConductorState, row: TaskRow, reason: str) -> None:
    match row.settings.timeout_policy:
        case TimeoutPolicy.ALERT_ONLY:
            return
        case TimeoutPolicy.RETRY:
            _mark(state, row, reason)
        case TimeoutPolicy.TIME_OUT_WF:
            _mark(state, row, reason)
            raise WorkflowEnds(WorkflowStatus.TIMED_OUT, reason)


def _mark(state: ConductorState, row: TaskRow, reason: str) -> None:
    row.status = AttemptStatus.TIMED_OUT
    row.ended_at = state.now_ms
    row.reason = reason
    row.requeueable = False
    state.dequeue(row)


def _reason(what: str, which: str, elapsed_ms: int, seconds: int, policy: TimeoutPolicy) -> str:
    after = elapsed_ms // MILLISECONDS_PER_SECOND
    return (
        f"{what} after {after} seconds. {which} configured as {seconds} seconds. "
        f"Timeout policy configured to {policy}"
    )


def decide(state: ConductorState, run: WorkflowRun) -> None:
    """Decide a workflow and, when it ended, the ones it is a part of."""
    deciding: WorkflowRun | None = run
    while deciding is not None:
        _decide(state, deciding)
        deciding = _parent_of_ended(state, deciding)


def _parent_of_ended(state: ConductorState, run: WorkflowRun) -> WorkflowRun | None:
    """What is to be decided next; the server writes a child's end also in a paused parent."""
    if run.parent is None or not run.status.is_terminal:
        return None
    parent = state.runs.get(run.parent[0])
    row = None if parent is None else parent.rows.get(run.parent[1])
    if row is not None and row.status is AttemptStatus.IN_PROGRESS:
        follow_child(state, row)
    return parent


def create_run(
    state: ConductorState,
    name: str,
    version: int,
    workflow_input: Mapping[str, object],
    task_to_domain: Mapping[str, str],
) -> WorkflowRun:
    """Add a workflow with the definitions as they are now: later changes do not reach it."""
    definition = state.workflow_definitions.get((name, version))
    if definition is None:
        raise MissingError(f"no such workflow defined: name={name}, version={version}")
    run = WorkflowRun(
        workflow_id=state.new_id(),
        definition=definition,
        settings=_settings(state, definition),
        input_data=workflow_input,
        start_time=state.now_ms,
        task_to_domain=task_to_domain,
    )
    state.runs[run.workflow_id] = run
    return run


def _decide(state: ConductorState, run: WorkflowRun) -> None:
    if run.status.is_terminal:
        return
    try:
        check_workflow(state, run)
        if run.status is WorkflowStatus.PAUSED:
            return
        check_rows(state, run)
        forgiven = settle_failures(state, run)
        walk = Walk(state, run, STEPS, lambda parent, row: _start_child(state, parent, row))
        done = walk.sequence(specs_in(run.definition["tasks"]))
        # A part that fails or ends within the walk, such as a child workflow.
        forgiven += settle_failures(state, run)
    except WorkflowEnds as end:
        end_workflow(state, run, end.status, end.reason)
        if end.output is not None:
            run.output_data = end.output
        return
    if done and _newest_passed(run):
        for row, status in forgiven:
            row.status = status  # the server ends the workflow before it writes such a row
        end_workflow(state, run, WorkflowStatus.COMPLETED, None)


def _newest_passed(run: WorkflowRun) -> bool:
    """Every open row keeps the workflow open, though another attempt let the walk pass."""
    newest = {row.reference_name: row for row in run.rows.values()}
    return all(row.lets_pass for row in newest.values()) and not any(run.open_rows())


def _start_child(state: ConductorState, parent: WorkflowRun, row: TaskRow) -> WorkflowRun:
    given = row.spec.get("subWorkflowParam")
    parameters: Mapping[str, object] = given if isinstance(given, Mapping) else {}
    domains = parameters.get("taskToDomain")
    version = parameters.get("version")
    child = create_run(
        state,
        str(parameters.get("name")),
        version if isinstance(version, int) else 1,
        dict(row.input_data),
        domains if isinstance(domains, Mapping) else parent.task_to_domain,
    )
    child.parent = (parent.workflow_id, row.task_id)
    _decide(state, child)  # its parent is being decided already
    return child


def _settings(state: ConductorState, definition: Spec) -> Mapping[str, TaskSettings]:
    names = {str(spec["name"]) for spec in specs_of(definition)}
    return {name: task_settings(name, state.definitions.get(name)) for name in names}
