"""What Conductor says of attempts and workflows, each asked once a pass.

An unanswered question is an error of the one thing it was asked for, never an answer.
"""

from typing import final

from perago.domain.attempt import WorkflowSnapshot
from perago.domain.errors import OUTCOME_UNKNOWN
from perago.domain.retention import AttemptStanding, WorkflowStanding
from perago.ports.task_queue import TaskQueue


@final
class Standings:
    """Remembers answers for one pass."""

    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue
        self._workflows: dict[str, WorkflowSnapshot | None] = {}

    async def snapshot(self, workflow_id: str) -> WorkflowSnapshot | None:
        """A workflow with its rows, or None."""
        if workflow_id not in self._workflows:
            self._workflows[workflow_id] = await self._queue.read_workflow(workflow_id)
        return self._workflows[workflow_id]

    @property
    def known(self) -> list[WorkflowSnapshot]:
        """Workflows that were asked for and are there."""
        return [each for each in self._workflows.values() if each is not None]

    async def workflow(self, workflow_id: str) -> WorkflowStanding:
        """Whether a workflow lives."""
        snapshot = await self.snapshot(workflow_id)
        if snapshot is None:
            return WorkflowStanding.UNKNOWN
        terminal = snapshot.status.is_terminal
        return WorkflowStanding.TERMINAL if terminal else WorkflowStanding.LIVE

    async def attempt(self, workflow_id: str, task_id: str) -> AttemptStanding:
        """Whether an attempt can still do anything."""
        snapshot = await self.snapshot(workflow_id)
        rows = () if snapshot is None else snapshot.tasks
        mine = next((row for row in rows if row.task_id == task_id), None)
        if mine is None:
            return AttemptStanding.UNKNOWN
        same = [row for row in rows if row.logical_task_key == mine.logical_task_key]
        if mine.retried or any(row.seq > mine.seq for row in same):
            return AttemptStanding.REPLACED
        return AttemptStanding.TERMINAL if mine.status.is_terminal else AttemptStanding.LIVE

    async def outcome_is_unknown(self, workflow_id: str, task_id: str) -> bool:
        """Whether the attempt ended without knowing if its publication happened."""
        record = await self._queue.read_attempt(workflow_id, task_id)
        return record is not None and (record.reason or "").startswith(OUTCOME_UNKNOWN)
