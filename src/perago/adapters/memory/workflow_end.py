"""The end of a workflow: open rows are cancelled, children end with it, the output is fixed.

Must not know why it ends.
"""

from collections.abc import Mapping

from perago.adapters.memory.conductor_rows import WorkflowRun
from perago.adapters.memory.conductor_state import ConductorState
from perago.adapters.memory.task_scheduling import find_document
from perago.adapters.memory.workflow_expressions import resolve
from perago.domain.attempt import AttemptStatus, WorkflowStatus

CHILD_ID = "subWorkflowId"


class WorkflowEnds(Exception):  # noqa: N818 - a signal inside the server, no error
    """Deciding found that the workflow is over."""

    def __init__(
        self, status: WorkflowStatus, reason: str, output: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.output = output


def end_workflow(
    state: ConductorState, run: WorkflowRun, status: WorkflowStatus, reason: str | None
) -> None:
    """End a workflow with all that is open below it."""
    run.status = status
    run.ended_at = state.now_ms
    run.reason = reason
    for row in run.open_rows():
        row.status = AttemptStatus.CANCELED
        row.requeueable = False
        state.dequeue(row)
        child = state.runs.get(str(row.output_data.get(CHILD_ID)))
        if child is not None and not child.status.is_terminal:
            why = f"Parent workflow has been terminated with reason: {reason}"
            end_workflow(state, child, WorkflowStatus.TERMINATED, why)
    run.output_data = _output(run)


def _output(run: WorkflowRun) -> Mapping[str, object]:
    """What the definition names, else the output of the last row."""
    parameters = run.definition.get("outputParameters")
    if isinstance(parameters, Mapping) and parameters:
        return {
            key: resolve(value, lambda name: find_document(run, name))
            for key, value in parameters.items()
        }
    rows = list(run.rows.values())
    return dict(rows[-1].output_data) if rows else {}
