"""Harnesses of attempts for tests: the real steps on whatever installations a test has.

Decides nothing; a test that needs another part overrides it with `dataclasses.replace`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.recordings import RecordingProgress

from perago.app.attempt.context import (
    Attempt,
    AttemptPorts,
    AttemptSettings,
)
from perago.app.attempt.run_attempt import AttemptReport, run_attempt
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.fence.trust import FenceTools
from perago.app.worker.thread_body import ThreadBody
from perago.domain.attempt import AttemptRecord
from perago.ports.conductor import PollRequest
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.task_body import NoLease
from perago.testing.servers import Surroundings, attempt_ports


@dataclass(frozen=True, slots=True)
class AttemptWorker:
    """One worker of a test: its harness, its tasks, and what it was told to do."""

    harness: AttemptPorts
    tasks: dict[str, TaskDefinition]
    settings: AttemptSettings
    progress: RecordingProgress
    fence: FenceTools
    reports: list[AttemptReport] = field(default_factory=list[AttemptReport])

    async def poll(self, task_type: str) -> AttemptRecord | None:
        """Take one attempt, if there is one."""
        request = PollRequest(task_type=task_type, worker_id=self.settings.worker_id)
        records = await self.harness.queue.poll(request)
        return records[0] if records else None

    async def run(self, record: AttemptRecord, polled_at: float | None = None) -> AttemptReport:
        """Run one polled attempt to its end; it was polled now, unless a time is given."""
        dispatch = Attempt(
            ports=self.harness,
            task=self.tasks[record.snapshot.task_type],
            record=record,
            execution_id=self.harness.identities.new_execution_id(),
            settings=self.settings,
        )
        report = await run_attempt(dispatch, NoLease(), polled_at=polled_at)
        self.reports.append(report)
        return report

    async def work(self, task_type: str) -> AttemptReport:
        """Poll one attempt and run it."""
        record = await self.poll(task_type)
        assert record is not None, f"no attempt of {task_type} was waiting"
        return await self.run(record)


def attempt_worker(
    lakefs: LakeFSInstallation,
    conductor: ConductorInstallation,
    around: Surroundings,
    tasks: Iterable[TaskDefinition],
    settings: AttemptSettings,
) -> AttemptWorker:
    """A worker on these installations."""
    by_name = {task.name: task for task in tasks}
    progress = RecordingProgress()
    harness = attempt_ports(lakefs, conductor, around, ThreadBody(by_name), progress)
    fence = FenceTools(lakefs, around.identities)
    return AttemptWorker(harness, by_name, settings, progress, fence)
