"""Making rows: the first attempt of a task, and the attempt that follows another.

Inputs are resolved here, anew for every attempt. Which task is due is not known here.
"""

from collections.abc import Mapping

from perago.adapters.memory.conductor_rows import (
    ITERATION_MARK,
    Spec,
    TaskRow,
    WorkflowRun,
)
from perago.adapters.memory.conductor_state import ConductorState
from perago.adapters.memory.task_settings import TaskSettings, task_settings
from perago.adapters.memory.workflow_expressions import Document, resolve
from perago.domain.attempt import AttemptStatus

TASK_ID_NAME = "CPEWF_TASK_ID"
# What the server calls rows of its own tasks; the rows of other kinds have the name of the task.
OWN_TYPES = {
    "FORK_JOIN": "FORK",
    "FORK_JOIN_DYNAMIC": "FORK",
    "JOIN": "JOIN",
    "SWITCH": "SWITCH",
}


def schedule_first(
    state: ConductorState,
    run: WorkflowRun,
    spec: Spec,
    iteration: int,
    *,
    status: AttemptStatus = AttemptStatus.SCHEDULED,
) -> TaskRow:
    """Add the first attempt of a task; a task for workers goes on its queue."""
    task_type = str(spec["name"])
    settings = run.settings.get(task_type) or task_settings(task_type, None)
    task_id = state.new_id()
    now = state.now_ms
    row = TaskRow(
        workflow_id=run.workflow_id,
        task_id=task_id,
        reference_name=reference_name(spec, iteration),
        task_type=OWN_TYPES.get(str(spec.get("type")), task_type),
        spec=spec,
        settings=settings,
        input_data=task_input(run, spec, settings, task_id),
        status=status,
        seq=run.next_seq,
        iteration=iteration,
        scheduled_time=now,
        start_time=0 if status is AttemptStatus.SCHEDULED else now,
        domain=_domain(run, task_type),
    )
    state.store(row)
    if row.is_queued_type:
        state.enqueue(row, start_delay_ms(spec))
    return row


def schedule_next(
    state: ConductorState, run: WorkflowRun, before: TaskRow, *, delay_ms: int, reason: str | None
) -> TaskRow | None:
    """Add the attempt that follows one; None when it is there already, as after a zombie's end."""
    before.retried = True
    count = before.retry_count + 1
    if any(row.retry_count == count for row in run.attempts_of(before.reference_name)):
        return None
    task_id = state.new_id()
    row = TaskRow(
        workflow_id=run.workflow_id,
        task_id=task_id,
        reference_name=before.reference_name,
        task_type=before.task_type,
        spec=before.spec,
        settings=before.settings,
        input_data=task_input(run, before.spec, before.settings, task_id),
        retry_count=count,
        seq=run.next_seq,
        iteration=before.iteration,
        scheduled_time=state.now_ms,
        start_delay_ms=delay_ms,
        callback_after_ms=delay_ms,
        retried_task_id=before.task_id,
        domain=before.domain,
        reason=reason,
    )
    state.store(row)
    if row.is_queued_type:
        state.enqueue(row, delay_ms)
    return row


def reference_name(spec: Spec, iteration: int) -> str:
    """The name of a task's rows; inside a loop it carries the iteration."""
    name = str(spec["taskReferenceName"])
    return f"{name}{ITERATION_MARK}{iteration}" if iteration else name


def task_input(
    run: WorkflowRun, spec: Spec, settings: TaskSettings, task_id: str
) -> dict[str, object]:
    """Resolve a task's input from what the workflow is now."""
    parameters = spec.get("inputParameters")
    template = parameters if isinstance(parameters, Mapping) else {}

    def lookup(name: str) -> object:
        return task_id if name == TASK_ID_NAME else find_document(run, name)

    resolved = {key: resolve(value, lookup) for key, value in template.items()}
    return {**settings.input_template, **resolved}


def find_document(run: WorkflowRun, name: str) -> Document | None:
    """What an expression may look into: the workflow, or the newest row of a task."""
    if name == "workflow":
        return {
            "input": run.input_data,
            "output": run.output_data,
            "status": str(run.status),
            "workflowId": run.workflow_id,
            "workflowType": run.definition["name"],
            "version": run.definition["version"],
            "reasonForIncompletion": run.reason,
            "variables": run.variables,
        }
    row = run.newest_by_name(name)
    if row is None:
        return None
    return {
        "input": row.input_data,
        "output": row.output_data,
        "status": str(row.status),
        "taskId": row.task_id,
        "taskType": row.task_type,
        "taskDefName": row.task_type,
        "referenceTaskName": row.reference_name,
        "retryCount": row.retry_count,
        "pollCount": row.poll_count,
        "iteration": row.iteration,
        "scheduledTime": row.scheduled_time,
        "startTime": row.start_time,
        "workerId": row.worker_id,
        "workflowInstanceId": row.workflow_id,
        "reasonForIncompletion": row.reason,
    }


def start_delay_ms(spec: Spec) -> int:
    """The pause before a first attempt may be polled."""
    delay = spec.get("startDelay")
    return delay * 1000 if isinstance(delay, int) else 0


def _domain(run: WorkflowRun, task_type: str) -> str | None:
    return run.task_to_domain.get(task_type) or run.task_to_domain.get("*")
