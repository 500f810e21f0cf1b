"""SUB_WORKFLOW: a row that stands for a workflow of its own; a retry of it starts another one."""

from perago.adapters.memory.conductor_rows import Spec, TaskRow
from perago.adapters.memory.workflow_end import CHILD_ID
from perago.adapters.memory.workflow_walk import Walk
from perago.domain.attempt import AttemptStatus, WorkflowStatus

ENDS = {
    WorkflowStatus.COMPLETED: AttemptStatus.COMPLETED,
    WorkflowStatus.FAILED: AttemptStatus.FAILED,
    WorkflowStatus.TIMED_OUT: AttemptStatus.TIMED_OUT,
    WorkflowStatus.TERMINATED: AttemptStatus.CANCELED,
}


def walk_sub_workflow(walk: Walk, spec: Spec, iteration: int) -> bool:
    """Start the child of the newest attempt once; afterwards end as the child did."""
    attempts = walk.attempts(spec, iteration)
    row = attempts[-1] if attempts else walk.schedule(spec, iteration)
    if row.status is AttemptStatus.SCHEDULED:
        _start(walk, row)
    if row.status is AttemptStatus.IN_PROGRESS:
        _follow(walk, row)
    return row.lets_pass


def _start(walk: Walk, row: TaskRow) -> None:
    child = walk.start_child(row)
    row.status = AttemptStatus.IN_PROGRESS
    row.start_time = row.update_time = walk.state.now_ms
    row.poll_count += 1
    row.output_data = {CHILD_ID: child.workflow_id}


def _follow(walk: Walk, row: TaskRow) -> None:
    child = walk.state.runs[str(row.output_data[CHILD_ID])]
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
