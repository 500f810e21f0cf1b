"""What an operator does to workflows: define, start, end, repeat, look."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from perago.domain.attempt import AttemptRecord, WorkflowStatus

NO_DOMAINS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class WorkflowRecord:
    """A workflow with its rows, inputs and outputs, as an operator sees it."""

    workflow_id: str
    status: WorkflowStatus
    reason: str | None
    input_data: Mapping[str, object]
    output_data: Mapping[str, object]
    attempts: tuple[AttemptRecord, ...]


class Workflows(Protocol):
    """Workflows of one Conductor installation; definitions are Conductor's own JSON.

    Laws (tests/contract/test_workflows.py has one test for each, by name):

    W1 sequence: tasks of a sequence are scheduled one after the other; the workflow completes
       with the last.
    W2 start_of_unknown_definition: raises MissingError.
    W3 input_expressions: task inputs are resolved from the workflow's input and earlier outputs.
    W4 missing_output_is_null: an expression over an output that does not exist is null.
    W5 pause_holds_the_next_task: while paused nothing new is scheduled; resuming what is not
       paused raises RequestRefusedError.
    W6 terminate_is_idempotent: terminating twice succeeds, and so does terminating a failed
       workflow; a completed one raises RequestRefusedError and stays.
    W7 retry_needs_a_failed_workflow: retrying a running workflow raises RequestRefusedError.
    W8 rerun_needs_a_finished_workflow: rerunning a running workflow raises RequestRefusedError.
    W9 restart_starts_from_the_first_task: same workflow id, new rows, retry count 0.
    W10 unknown_workflow_is_none: reading an unknown id is None.
    W11 fork_and_join: branches run side by side; what follows the join sees their outputs.
    W12 failed_branch_ends_the_workflow: a branch's terminal failure cancels its siblings; a
        retry continues all of them.
    W13 loop: each iteration has rows of its own, and an output by its number.
    W14 switch: the value of the named parameter chooses the case, else the default.
    W15 sub_workflow: a child's end is its task's end; a retry starts another child.
    W16 output_parameters: the workflow's output is what its definition names.
    W17 optional_task_may_fail: without retries left the workflow goes on.
    W18 variables: what SET_VARIABLE sets is read as a variable of the workflow.
    W19 terminate_task: TERMINATE ends the workflow with the status, reason and output it names;
        open branches are cancelled.
    W20 wait: WAIT lets pass when its duration is over, and not before.
    W21 dynamic_fork: branches come from the input, each with its own; the join has all outputs.
    """

    async def put_definition(self, definition: Mapping[str, object]) -> None:
        """Create or replace a workflow definition."""
        ...

    async def start(
        self,
        name: str,
        workflow_input: Mapping[str, object],
        *,
        version: int = 1,
        task_to_domain: Mapping[str, str] = NO_DOMAINS,
    ) -> str:
        """Start a workflow; its id. `task_to_domain` names domains by task type, `*` for all."""
        ...

    async def read(self, workflow_id: str) -> WorkflowRecord | None:
        """Read a workflow, or None."""
        ...

    async def terminate(self, workflow_id: str, reason: str) -> None:
        """End a workflow; its open tasks are cancelled."""
        ...

    async def pause(self, workflow_id: str) -> None:
        """Schedule nothing new until resumed."""
        ...

    async def resume(self, workflow_id: str) -> None:
        """Undo a pause."""
        ...

    async def retry(self, workflow_id: str) -> None:
        """Continue a failed workflow with a new attempt of the task that failed."""
        ...

    async def rerun(
        self,
        workflow_id: str,
        from_task_id: str,
        task_input: Mapping[str, object] | None = None,
    ) -> None:
        """Run a finished workflow again from one of its rows, which keeps its id."""
        ...

    async def restart(self, workflow_id: str) -> None:
        """Run a finished workflow again from its start; its rows are forgotten."""
        ...

    async def requeue(self, task_type: str) -> None:
        """Put every running row of a type back on the queue, healthy ones included."""
        ...

    async def release_without_result(self, attempt: AttemptRecord) -> None:
        """Put a running row back on the queue (an IN_PROGRESS update without lease)."""
        ...

    async def decide(self, workflow_id: str) -> None:
        """Apply what is due now: time-outs and the next tasks."""
        ...
