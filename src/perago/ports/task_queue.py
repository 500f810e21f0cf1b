"""Conductor as a worker sees it: poll, look, keep the lease, complete, read back, log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from perago.domain.attempt import (
    NO_DATA,
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    WorkflowSnapshot,
)


@dataclass(frozen=True, slots=True)
class PollRequest:
    """One batch poll; the server waits up to `wait_ms` for a full batch."""

    task_type: str
    worker_id: str
    count: int = 1
    domain: str | None = None
    wait_ms: int = 100


@dataclass(frozen=True, slots=True)
class TerminalUpdate:
    """The end of an attempt as it is sent; output only when COMPLETED, else a reason."""

    attempt: AttemptSnapshot
    worker_id: str
    status: AttemptStatus
    output: Mapping[str, object] = field(default_factory=lambda: NO_DATA)
    reason: str | None = None


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
    Q19 restart_forgets_the_rows: after a restart the old ids are unknown.
    Q20 redelivery_reuses_the_row: an IN_PROGRESS update without lease extension puts the same
       id back on the queue; the next poll counts up.
    Q21 manual_retry_is_a_new_attempt: after a failed workflow's retry a new row continues the
       chain.
    Q22 paused_workflow_completes: an attempt of a paused workflow completes and takes effect
       on resume.
    Q23 task_log_is_kept: a logged line can be read back.
    Q24 retry_delay_is_kept: a retry is not handed out before its delay.
    Q25 retry_resolves_inputs_anew: a retry's input is resolved again from the workflow.
    Q26 ended_workflow_tells_when: a terminal workflow says when it ended; brought back and ended
       again it says the later time.
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

    async def extend_lease(self, attempt: AttemptSnapshot, worker_id: str) -> None:
        """Send one heartbeat."""
        ...

    async def complete(self, update: TerminalUpdate, *, timeout_seconds: float) -> None:
        """Send a terminal update; success never proves acceptance, only a read does."""
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
