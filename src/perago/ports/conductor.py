"""Conductor as workers and operators see it: the task queue, workflows, and task definitions.

`TaskQueue` polls, reads, keeps the lease, completes and logs; `Workflows` starts, stops and reads;
`TaskDefinitions` registers. The laws in each docstring have one contract test each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Protocol, TypeAlias

from perago.domain.attempt import (
    NO_DATA,
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    WorkflowSnapshot,
    WorkflowStatus,
)


@dataclass(frozen=True, slots=True)
class PollRequest:
    """One batch poll; the server waits up to `wait_ms` for a full batch."""

    task_type: str
    worker_id: str
    count: int = 1
    domain: str | None = None
    wait_ms: int = 100  # Conductor's own default


# TIMED_OUT and SCHEDULED are the server's to give; it answers 500 to a worker that sends them.
SENDABLE = frozenset(
    {
        AttemptStatus.COMPLETED,
        AttemptStatus.FAILED,
        AttemptStatus.FAILED_WITH_TERMINAL_ERROR,
        AttemptStatus.CANCELED,
    }
)


@dataclass(frozen=True, slots=True)
class TerminalUpdate:
    """The end of an attempt as it is sent; output only when COMPLETED, else a reason."""

    attempt: AttemptSnapshot
    worker_id: str
    status: AttemptStatus
    output: Mapping[str, object] = field(default_factory=lambda: NO_DATA)
    reason: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no worker may send, before it looks like an answer of the server."""
        if self.status not in SENDABLE:
            raise ValueError(f"an attempt does not end as {self.status}; use one of {SENDABLE}")


@dataclass(frozen=True, slots=True)
class HandBack:
    """A row that goes back to its queue; `output` and `reason` stay in it until its end.

    The next poll gets it after `after_seconds`. The server compares nothing, so callers read the
    row first: sent for an attempt that is stale, it takes the row from the worker that has it now.
    """

    attempt: AttemptSnapshot
    worker_id: str | None
    reason: str | None = None
    output: Mapping[str, object] = field(default_factory=lambda: NO_DATA)
    after_seconds: int = 0

    @property
    def status(self) -> AttemptStatus:
        """What the row is afterwards."""
        return AttemptStatus.SCHEDULED


AttemptEnd: TypeAlias = TerminalUpdate | HandBack
"""What a worker sends last for an attempt."""


@dataclass(frozen=True, slots=True)
class LastPoll:
    """Who asked last for the rows of a task in one domain, and when, by Conductor's clock."""

    worker_id: str
    at: datetime
    domain: str | None = None


class TaskQueue(Protocol):
    """The task queue of one Conductor installation.

    Laws (tests/contract/test_task_queue.py has one test for each, by name):

    Q1 poll_hands_out_once: a scheduled task is handed to one poll; its row is IN_PROGRESS with
       the poller's worker id, poll count 1 and a start time.
    Q2 poll_of_nothing_is_empty: an empty queue and an unknown type give an empty batch.
    Q3 poll_respects_the_domain: a task with a domain is invisible without it.
    Q4 poll_gives_up_to_count: a batch has at most `count` tasks; a wait of more than five
       seconds raises RequestRefusedError.
    Q5 read_attempt_is_fresh: reading an attempt shows its row now; an unknown id is None.
    Q6 read_workflow_has_every_row: one read shows the workflow's status and all its task rows,
       retries included; an unknown id is None.
    Q7 complete_is_recorded: COMPLETED with output reads back as such, and the next task of the
       workflow is scheduled with the output as its input.
    Q8 failed_is_retried: FAILED schedules a new attempt: new id, retry count and seq one more,
       the old id as `retried_task_id`, the old row `retried`.
    Q9 terminal_error_is_not_retried: FAILED_WITH_TERMINAL_ERROR ends the workflow as FAILED.
    Q10 stale_update_is_accepted_and_ignored: an update of a finished or superseded attempt
       succeeds and changes nothing.
    Q11 update_of_unknown_task: raises MissingError.
    Q12 extend_lease_moves_nothing_else: status, output, poll count and worker id stay.
    Q13 extend_lease_of_a_finished_task_is_ignored: succeeds and changes nothing.
    Q14 lost_lease_is_retried: after the response time-out the row is TIMED_OUT and a new
       attempt is scheduled.
    Q15 kept_lease_lives: with heartbeats an attempt outlives its response time-out.
    Q16 terminated_workflow_cancels: its running row is CANCELED, a late completion is ignored.
    Q17 retries_end: after the last retry the workflow is FAILED.
    Q18 rerun_reuses_the_row: a rerun from a task hands out the same task id with a new
       scheduled time, retry count and retried id unchanged, poll count counted anew.
    Q19 restart_forgets_the_rows: after a restart the old ids are unknown, and so is when the
       workflow ended.
    Q20 redelivery_reuses_the_row: an IN_PROGRESS update without lease extension puts the same
       id back on the queue; the next poll counts up.
    Q21 manual_retry_is_a_new_attempt: after a failed workflow's retry a new row continues the
       chain.
    Q22 paused_workflow_completes: an attempt of a paused workflow completes and takes effect
       on resume.
    Q23 task_log_is_kept: a logged line can be read back.
    Q24 retry_delay_is_kept: a retry is not handed out before its delay, and its row says how long
       that is until a worker has it.
    Q25 retry_resolves_inputs_anew: a retry's input is resolved again from the workflow; what a
       rerun gave under other names stays.
    Q26 ended_workflow_tells_when: a terminal workflow says when it ended; brought back and ended
       again it says the later time.
    Q27 lost_answer_is_unknown: law L0. A heartbeat, an update, a log line or a poll whose answer is
       lost raises OutcomeUnknownError: a poll hands rows out, which no worker has then. So does a
       hand back.
    Q28 rerun_hands_failed_attempts_out: a rerun hands out every earlier task's failed attempt
       again, `retried` as before; the workflow waits for its end and ignores status and output.
    Q29 hand_back_spends_no_retry: a row that is handed back is SCHEDULED under the same id, retry
       count, scheduled and start time; the next poll counts up and has its output and reason.
    Q30 hand_back_waits: no poll gets a row before its seconds are over.
    Q31 end_replaces_what_was_handed_back: output and reason of a hand back are gone after a
       completion, and a retry begins without that output.
    Q32 hand_back_of_an_ended_attempt_is_ignored: succeeds and changes nothing; an unknown id raises
       MissingError.
    Q33 rows_in_progress_are_found: the rows of a type that were handed out and have not ended, by
       whoever has them; a row in its queue and a row that ended are not among them.
    Q34 last_polls_are_known: who polled a type last and when, once for each domain; polls that got
       nothing count. A type that was never polled has none.
    Q35 waiting_rows_are_counted: rows of a type in its queues, by domain, also those whose time has
       not come; a row that was handed out or ended does not count.
    Q36 ended_row_tells_when: a completed, timed out or cancelled row says when it ended, and no
       later answer says another time.
    """

    async def poll(self, request: PollRequest) -> tuple[AttemptRecord, ...]:
        """Take up to `count` scheduled tasks."""
        ...

    async def read_attempt(self, workflow_id: str, task_id: str) -> AttemptRecord | None:
        """Read one row; None when the server does not know it."""
        ...

    async def read_workflow(self, workflow_id: str) -> WorkflowSnapshot | None:
        """Read a workflow with all its rows; None when the server does not know it."""
        ...

    async def in_progress(self, task_type: str) -> tuple[AttemptRecord, ...]:
        """Find rows that workers have, the newest first, as far as the server's index knows."""
        ...

    async def last_polls(self, task_type: str) -> tuple[LastPoll, ...]:
        """The newest poll of each domain; of several workers, that of the last one."""
        ...

    async def waiting(self, task_type: str) -> Mapping[str | None, int]:
        """How many rows wait, by domain; a queue without rows may be left out."""
        ...

    async def extend_lease(self, attempt: AttemptSnapshot, worker_id: str) -> None:
        """Send one heartbeat."""
        ...

    async def complete(self, update: TerminalUpdate, *, timeout_seconds: float) -> None:
        """Send a terminal update; success never proves acceptance, only a read does."""
        ...

    async def hand_back(self, given: HandBack, *, timeout_seconds: float) -> None:
        """Put a row back in its queue; success never proves acceptance, only a read does."""
        ...

    async def log(self, task_id: str, line: str) -> None:
        """Append one line to the task's log in Conductor."""
        ...

    async def read_log(self, task_id: str) -> tuple[str, ...]:
        """The lines logged for a task."""
        ...

    async def check(self) -> str:
        """Ask for the server's version; raises UnavailableError when this is no Conductor."""
        ...


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
    name: str = ""


class Workflows(Protocol):
    """Workflows of one Conductor installation; definitions are Conductor's own JSON.

    Laws (tests/contract/test_workflows.py has one test for each, by name):

    W1 sequence: tasks of a sequence are scheduled one after the other; the workflow completes
       with the last. A read names the definition.
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
    W11 fork_and_join: branches run side by side; what follows the join sees their outputs. The
        server's own rows are of the types FORK and JOIN, and no worker has to answer for them.
    W12 failed_branch_ends_the_workflow: a branch's terminal failure cancels its siblings; a
        retry continues all of them.
    W13 loop: each iteration has rows of its own, and an output by its number. A workflow in which
        nothing but the loop was cancelled cannot be retried.
    W14 switch: the value of the named parameter chooses the case, else the default.
    W15 sub_workflow: a child's end is its task's end, CANCELED where the child was terminated, at
        once also while the parent is paused; a retry starts another child.
    W16 output_parameters: the workflow's output is what its definition names.
    W17 optional_task_may_fail: without retries left the workflow goes on.
    W18 variables: what SET_VARIABLE sets is read as a variable of the workflow.
    W19 terminate_task: TERMINATE ends the workflow with the status, reason and output it names;
        open branches are cancelled. A definition whose status is an expression is refused.
    W20 wait: WAIT lets pass when its duration is over, and not before.
    W21 dynamic_fork: branches come from the input, each with its own; the join has all outputs.
    W22 rows_of_the_server: a fork, a join and a switch are rows of the types FORK, JOIN and
        SWITCH, whatever their tasks are called; a join's input names what it waits for.
    W23 lost_answer_is_unknown: law L0. Every verb but a read raises OutcomeUnknownError when its
        answer is lost.
    W24 ended_loop_stays_ended: after a rerun inside a loop that completed its body runs again, and
        what is behind the loop never does.
    W25 handed_back_branch_keeps_the_fork: a branch that is handed back fails nothing; the join
        waits for its redelivery.
    W26 branch_of_a_sub_workflow_outlives_its_retries: a branch that is a workflow of its own may
        fail and be retried inside it; the fork goes on, and the join has the output of the child.
    W27 dynamic_fork_over_items: one branch for each item of a list, a task or a child workflow;
        its input is the item, with the number of the item.
    W28 definition_is_read: the newest version of a definition is read back as it was put, and an
        unknown name is None.
    W29 human: HUMAN waits until its row is completed as any other row is, and its output is read
        behind it; a row that a person fails for good ends the workflow.
    W30 definitions_are_listed: of each name the newest version, as it is read by its name.
    """

    async def put_definition(self, definition: Mapping[str, object]) -> None:
        """Create or replace a workflow definition."""
        ...

    async def read_definition(self, name: str) -> Mapping[str, object] | None:
        """Read the newest version of a workflow definition, or None."""
        ...

    async def list_definitions(self) -> tuple[Mapping[str, object], ...]:
        """Read the newest version of every workflow definition."""
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

    async def decide(self, workflow_id: str) -> None:
        """Apply what is due now: time-outs and the next tasks."""
        ...


class TaskDefinitions(Protocol):
    """Task definitions of one Conductor installation, in Conductor's own JSON form.

    Laws (tests/contract/test_task_definitions.py has one test for each, by name):

    D1 put_then_read: a definition reads back with every field that was put.
    D2 put_replaces: a second put replaces the record; absent fields return to defaults.
    D3 absent_definition_is_none: reading an unknown name is None.
    D4 defaults: a definition with nothing but a name has the server's defaults.
    D5 impossible_timeouts_are_refused: a response time-out above a time-out that is not 0, or
       below 1, raises RequestRefusedError.
    D6 lost_answer_is_unknown: law L0. A put whose answer is lost raises OutcomeUnknownError.
    """

    async def read(self, name: str) -> Mapping[str, object] | None:
        """Read one definition, or None."""
        ...

    async def put(self, definition: Mapping[str, object]) -> None:
        """Create or replace one definition."""
        ...
