"""TERMINATE: ends the workflow with the status it names; the workflow's output is its own."""

from collections.abc import Mapping
from typing import Never

from perago.adapters.memory.conductor_rows import Spec
from perago.adapters.memory.workflow_end import WorkflowEnds
from perago.adapters.memory.workflow_walk import Walk
from perago.domain.attempt import AttemptStatus, WorkflowStatus


def walk_terminate(walk: Walk, spec: Spec, iteration: int) -> Never:
    """End the workflow; what stands behind is never walked."""
    row = walk.schedule(spec, iteration, AttemptStatus.COMPLETED)
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
