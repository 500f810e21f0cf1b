"""Conductor's JSON of a workflow as an operator's record of it. Pure; knows no client."""

from perago.adapters.conductor.task_mapping import (
    attempt_record,
    json_list,
    json_object,
    optional_text,
    required_text,
    status_of,
)
from perago.domain.attempt import NO_DATA, WorkflowStatus
from perago.ports.conductor import WorkflowRecord


def workflow_record(answer: object) -> WorkflowRecord:
    """A workflow with its rows, in the order in which they were scheduled."""
    workflow = json_object(answer, "a workflow")
    return WorkflowRecord(
        workflow_id=required_text(workflow, "workflowId"),
        status=status_of(WorkflowStatus, workflow),
        reason=optional_text(workflow, "reasonForIncompletion"),
        input_data=json_object(workflow.get("input") or NO_DATA, "input"),
        output_data=json_object(workflow.get("output") or NO_DATA, "output"),
        attempts=tuple(attempt_record(row) for row in json_list(workflow.get("tasks"), "tasks")),
    )
