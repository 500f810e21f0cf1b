"""What the in-memory Conductor does next: retries, time-outs, and the walk over a workflow.

`settle_failures` gives a failed attempt its retry or ends the workflow, `check_rows` and
`check_workflow` apply time-outs, `decide` does all of it until nothing changes. `next_due_ms` is
when time alone changes something next.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perago.adapters.memory.conductor_rows import (
    MILLISECONDS_PER_SECOND,
    PASSING,
    TaskRow,
    TimeoutPolicy,
    WorkflowRun,
    retry_delay_ms,
    specs_in,
    specs_of,
)
from perago.adapters.memory.conductor_state import ConductorState, end_workflow, schedule_next
from perago.adapters.memory.workflow_step_kinds import Walk, WorkflowEnds, follow_child, wakes_at_ms
from perago.domain.attempt import AttemptStatus, WorkflowStatus, as_mapping
from perago.ports.errors import MissingError

# FAILED_WITH_TERMINAL_ERROR and a worker's CANCELED get no retry on the server.
RETRIABLE = frozenset({AttemptStatus.FAILED, AttemptStatus.TIMED_OUT})
ENDS_OF_WORKFLOWS: Mapping[AttemptStatus, WorkflowStatus] = MappingProxyType(
    {
        AttemptStatus.TIMED_OUT: WorkflowStatus.TIMED_OUT,
        AttemptStatus.CANCELED: WorkflowStatus.TERMINATED,
    }
)
RESPONSE = "responseTimeout"


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
            status = ENDS_OF_WORKFLOWS.get(row.status, WorkflowStatus.FAILED)
            why = "null" if row.reason is None else row.reason
            raise WorkflowEnds(
                status, f"Task {row.task_id} failed with status: {status} and reason: '{why}'"
            )
    return forgiven


def _retries_max(row: TaskRow) -> int:
    """The workflow's own count wins; kinds that no worker polls are retried only by hand."""
    own = row.spec.get("retryCount")
    if isinstance(own, int):
        return own
    return row.settings.retry_count if row.is_queued_type else 0


@dataclass(frozen=True, slots=True)
class _TimeOut:
    """A time that a row or a workflow may take, and what the server calls it."""

    since_ms: int
    seconds: int
    policy: TimeoutPolicy
    what: str
    setting: str = "Timeout"

    @property
    def due_ms(self) -> int:
        return self.since_ms + self.seconds * MILLISECONDS_PER_SECOND

    def reason(self, now_ms: int) -> str:
        if self.setting == RESPONSE:
            return f"{RESPONSE}: {self.seconds} exceeded for {self.what}"
        passed = (now_ms - self.since_ms) // MILLISECONDS_PER_SECOND
        return (
            f"{self.what} timed out after {passed} seconds. {self.setting} configured as "
            f"{self.seconds} seconds. Timeout policy configured to {self.policy}"
        )


def _time_outs_of(row: TaskRow) -> Iterator[_TimeOut]:
    """What counts for a row now, in the server's order: the execution time-out comes first.

    A retried row has its next attempt already, so its time decides nothing.
    """
    if not row.is_queued_type or row.retried:
        return
    settings, policy = row.settings, row.settings.timeout_policy
    if settings.timeout_seconds > 0 and row.start_time:
        # Heartbeats do not move it: it counts from the start of the attempt.
        since = row.start_time + row.start_delay_ms
        yield _TimeOut(since, settings.timeout_seconds, policy, "Task")
    unpolled = settings.poll_timeout_seconds or 0
    if unpolled > 0 and row.status is AttemptStatus.SCHEDULED:
        since = row.scheduled_time + row.start_delay_ms
        yield _TimeOut(since, unpolled, policy, "Task poll", "Poll timeout")
    if row.status is AttemptStatus.IN_PROGRESS:
        # Counts from the last heartbeat and is retried whatever the time-out policy says.
        what = f"the taskId: {row.task_id} with Task Definition: {row.task_type}"
        seconds = settings.response_timeout_seconds
        yield _TimeOut(row.update_time, seconds, "RETRY", what, RESPONSE)


def _time_outs_of_workflow(run: WorkflowRun) -> Iterator[_TimeOut]:
    """At most one: under the other policy, ALERT_ONLY, the server lets a workflow run."""
    seconds = run.definition.get("timeoutSeconds")
    times_out = run.definition.get("timeoutPolicy") == "TIME_OUT_WF"
    if times_out and isinstance(seconds, int) and seconds > 0:
        yield _TimeOut(run.start_time, seconds, "TIME_OUT_WF", "Workflow")


def check_workflow(state: ConductorState, run: WorkflowRun) -> None:
    """End a workflow that ran longer than its definition allows."""
    for time_out in _time_outs_of_workflow(run):
        if time_out.due_ms <= state.now_ms:
            raise WorkflowEnds(WorkflowStatus.TIMED_OUT, time_out.reason(state.now_ms))


def check_rows(state: ConductorState, run: WorkflowRun) -> None:
    """Mark the rows whose time is over."""
    now = state.now_ms
    for row in run.open_rows():
        for time_out in _time_outs_of(row):
            if time_out.due_ms > now or time_out.policy == "ALERT_ONLY":
                continue
            row.status = AttemptStatus.TIMED_OUT
            row.ended_at = now
            row.reason = time_out.reason(now)
            row.requeueable = False
            state.dequeue(row)
            if time_out.policy == "TIME_OUT_WF":
                raise WorkflowEnds(WorkflowStatus.TIMED_OUT, row.reason)
            break


def next_due_ms(state: ConductorState) -> int | None:
    """The next moment at which a row is due or its time is over; None when there is none."""
    return min((time for time in _times(state) if time > state.now_ms), default=None)


def _times(state: ConductorState) -> Iterator[int]:
    yield from state.queued_times_ms()
    for run in state.runs.values():
        if run.status is WorkflowStatus.RUNNING:
            yield from (time_out.due_ms for time_out in _time_outs_of_workflow(run))
            for row in run.open_rows():
                yield from (time_out.due_ms for time_out in _time_outs_of(row))
                wakes = wakes_at_ms(row)
                if wakes is not None:
                    yield wakes


def decide(state: ConductorState, run: WorkflowRun) -> None:
    """Decide a workflow and, when it ended, the ones it is a part of."""
    _decide(state, run)
    while run.parent is not None and run.status.is_terminal:
        parent_id, task_id = run.parent
        run = state.runs[parent_id]
        row = run.rows.get(task_id)  # a rerun of the parent may have forgotten it
        if row is not None and row.status is AttemptStatus.IN_PROGRESS:
            follow_child(state, row)  # first, because a paused parent decides nothing
        _decide(state, run)


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
    names = {str(spec["name"]) for spec in specs_of(definition["tasks"])}
    run = WorkflowRun(
        workflow_id=state.new_id(),
        definition=definition,
        settings={name: state.settings(name) for name in names},
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
        walk = Walk(state, run, lambda row: _start_child(state, run, row))
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
    parameters = as_mapping(row.spec.get("subWorkflowParam"))
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
