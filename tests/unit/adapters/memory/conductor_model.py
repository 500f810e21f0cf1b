"""An in-memory Conductor with one workflow of one task, for tests that look inside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perago.adapters.memory.conductor_server import MemoryConductor, Race
from perago.adapters.memory.system import VirtualClock
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus, WorkflowSnapshot
from perago.ports.conductor import NO_DOMAINS, PollRequest, TerminalUpdate

TASK = "count_rows"
WORKFLOW = "counting"
NO_OUTPUT: Mapping[str, object] = MappingProxyType({})


@dataclass
class OneTask:
    """A started workflow of one task (and one behind it when asked)."""

    clock: VirtualClock
    conductor: MemoryConductor
    workflow_id: str = ""

    def start(self, name: str, *specs: Mapping[str, object], **fields: object) -> None:
        """Define a workflow and start it, as the one that is looked at."""
        self.conductor.put_workflow_definition({"name": name, "tasks": list(specs), **fields})
        self.workflow_id = self.conductor.start(name, {}, task_to_domain=NO_DOMAINS)

    def poll(self, worker_id: str = "worker", count: int = 1) -> tuple[AttemptRecord, ...]:
        """Take what waits."""
        return self.conductor.poll(PollRequest(TASK, worker_id, count))

    def polled(self, worker_id: str = "worker") -> AttemptSnapshot:
        """Take the one attempt that waits."""
        (record,) = self.poll(worker_id)
        return record.snapshot

    def finish(
        self,
        attempt: AttemptSnapshot,
        status: AttemptStatus = AttemptStatus.COMPLETED,
        output: Mapping[str, object] = NO_OUTPUT,
    ) -> None:
        """Send a terminal update and let it land."""
        self.conductor.begin_complete(TerminalUpdate(attempt, "worker", status, output)).land()

    @property
    def workflow(self) -> WorkflowSnapshot:
        """The workflow with its rows."""
        return self.conductor.state.run(self.workflow_id).snapshot()

    def row(self, attempt: AttemptSnapshot) -> AttemptRecord:
        """An attempt's row."""
        return self.conductor.state.row(attempt.task_id).record()


def new_conductor(race: Race = Race.NEVER) -> OneTask:
    """A server on which nothing is defined."""
    clock = VirtualClock()
    return OneTask(clock, MemoryConductor(clock, race=race))


def start_one_task(*, race: Race = Race.NEVER, tasks: int = 1, **fields: object) -> OneTask:
    """Register and start; retries come at once unless `fields` say otherwise."""
    task = new_conductor(race)
    task.conductor.put_task_definition({"name": TASK, "retryDelaySeconds": 0, **fields})
    names = ("first", "second")[:tasks]
    specs = [
        {"name": TASK, "taskReferenceName": name, "inputParameters": {"n": "${first.output.n}"}}
        for name in names
    ]
    task.start(WORKFLOW, *specs)
    return task
