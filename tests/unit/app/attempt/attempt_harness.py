"""One logical task on in-memory lakeFS and Conductor, worked by attempts that may be struck.

Holds the invariants every outcome must keep; which fault strikes where is the test's choice.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar, cast, final

from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker, Surroundings, attempt_worker

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import (
    RepositoryBuilder,
    conductor_installation,
    lakefs_installation,
)
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.system import (
    SeededIdentities,
    SequentialConcurrency,
    VirtualClock,
    WorkerHandle,
)
from perago.app.attempt.context import AttemptSettings
from perago.app.attempt.reset_task import Reset, ResetTools, reset_task
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.task_declaration import task
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.worker.run_body import run_body
from perago.domain.attempt import PATIENCE_SECONDS, WorkflowStatus
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import CommitId, CommitRecord
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.ports.conductor import WorkflowRecord
from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError
from perago.ports.installations import ConductorInstallation
from perago.ports.task_body import BodyCall, BodyOutcome, TaskBody
from perago.testing.fault_injector import (
    CallGate,
    FaultInjector,
    ProcessDied,
    faulty_installation,
    faulty_port,
    lost_answer,
)
from perago.testing.faults import LOCAL_PORTS, Call, Fault, Moment, Side

TASK = "edit"
RESPONSE_SECONDS = 60
ATTEMPTS_MAX = 8
TURNS_MAX = 200_000

GIVEN = object()
"""The input that the harness itself made."""

T = TypeVar("T")

OUTAGE_SECONDS = 20.0
CONDUCTOR = "queue"


@final
class Outage(CallGate):
    """From one moment on the service of its call is away for a time.

    On the moment's `after` side that call still takes effect, with its answer lost.
    """

    def __init__(
        self, clock: VirtualClock, moment: Moment, *, seconds: float = OUTAGE_SECONDS
    ) -> None:
        self._clock = clock
        self._moment = moment
        self._seconds = seconds
        self._reached = 0
        self._until = 0.0
        self.calls: list[str] = []
        self.service = ""

    async def passes(self, call: Call, send: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        """Refuse while the service is away."""
        self.calls.append(call.operation)
        service = CONDUCTOR if call.operation.startswith(CONDUCTOR) else "lakefs"
        self._reached += self._moment.is_reached_by(call)
        if self._reached == self._moment.nth and not self.service:
            self.service, self._until = service, self._clock.monotonic() + self._seconds
            if self._moment.side is Side.AFTER:
                with suppress(ServiceError):
                    await send()
                return lost_answer(call)
        if service == self.service and self._clock.monotonic() < self._until:
            raise UnavailableError(f"{call.operation}: connection refused")
        return await send()


class Params(BaseModel):
    """The task's parameters."""

    text: str = "new"


class Result(BaseModel):
    """What a run reports: its own number."""

    run: int
    text: str = ""


@dataclass
class InlineBody(TaskBody):
    """Runs bodies in the loop: a test has no thread to wait for."""

    tasks: dict[str, TaskDefinition]

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call."""
        return run_body(self.tasks[call.task_name], call)


@dataclass
class AttemptHarness:
    """The servers, the repository, one running workflow with one task, and its workers."""

    root: Path
    policy: PolicySetting
    fenced: bool = True
    changes: bool = True
    require_ownership: bool = False
    response_seconds: int = RESPONSE_SECONDS
    spec: WorkspaceSpec = field(default_factory=lambda: WorkspaceSpec(prefix="data"))
    body: Callable[[Path, int], None] | None = None
    params: object = field(default_factory=dict[str, object])
    result_text: str = ""
    patience_seconds: float = PATIENCE_SECONDS
    reference: str = TASK
    shared_root: Path | None = None
    others: tuple[TaskDefinition, ...] = ()
    runs: int = 0
    planned: list[Fault] = field(default_factory=list[Fault])
    workers: list[FaultInjector] = field(default_factory=list[FaultInjector])
    reports: list[AttemptReport] = field(default_factory=list[AttemptReport])

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.lakefs = MemoryLakeFS(self.clock)
        self.conductor = MemoryConductor(self.clock)
        self.repository = RepositoryBuilder(self.lakefs, "repo")
        files: dict[str, bytes | None] = {"data/kept.txt": b"kept", "data/old.txt": b"old"}
        files["elsewhere/other.txt"] = b"other"
        if self.fenced:
            files[FENCE_PATH] = FENCE_FILE
        self.input: CommitId = self.repository.commit(files)
        self.task = self._declare()
        self.operator: ConductorInstallation = conductor_installation(
            self.conductor, WorkerHandle()
        )
        self.workflow = ""

    def _declare(self) -> TaskDefinition:
        @task(name=TASK, owner_email="data@example.com", workspace=self.spec)
        def edit(workspace: Path, params: Params) -> Result:
            self.runs += 1
            if self.body is not None:
                self.body(workspace, self.runs)
            elif self.changes:
                (workspace / "out.txt").write_text(f"{params.text} {self.runs}")
                (workspace / f"only-{self.runs}.txt").write_text("of this run")
                (workspace / "old.txt").unlink()
            return Result(run=self.runs, text=self.result_text)

        definition: TaskDefinition = vars(edit)["__perago_task__"]
        return definition

    async def started(self, workspace: object = GIVEN) -> Self:
        """The same harness, whose first attempt waits."""
        await self.start(workspace)
        return self

    async def start(self, workspace: object = GIVEN) -> None:
        """Register and start; the first attempt waits."""
        definition: dict[str, object] = {"name": TASK, "ownerEmail": "data@example.com"}
        definition |= {"retryCount": 10, "retryDelaySeconds": 0}
        definition |= {"responseTimeoutSeconds": self.response_seconds, "timeoutSeconds": 0}
        await self.operator.definitions.put(definition)
        row: dict[str, object] = {
            "name": TASK,
            "taskReferenceName": self.reference,
            "type": "SIMPLE",
        }
        place = "${workflow.input.workspace}"
        row["inputParameters"] = {"workspace": place, "params": self.params}
        await self.operator.workflows.put_definition(
            {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": [row]}
        )
        if workspace is GIVEN:
            workspace = self.workspace()
        self.workflow = await self.operator.workflows.start("flow", {"workspace": workspace})

    def workspace(self, **changes: object) -> dict[str, object]:
        """The task's workspace input, with changes."""
        place = {"repository": "repo", "branch": "main", "refType": "commit", "ref": self.input}
        return {**place, **changes}

    def human(self, path: str = "elsewhere/human.txt", content: bytes = b"human") -> CommitId:
        """Somebody without Perago commits on the target."""
        return self.repository.commit({path: content})

    def worker(
        self,
        faults: Iterable[Fault] = (),
        *,
        policy: PolicySetting | None = None,
        gate: CallGate | None = None,
    ) -> AttemptWorker:
        """A new process with these faults, each at one of its calls."""
        number = len(self.workers) + 1
        self.planned = list(faults)
        injector = FaultInjector(self.planned)
        self.workers.append(injector)
        lakefs = faulty_installation(lakefs_installation(self.lakefs, WorkerHandle()), injector)
        conductor = conductor_installation(self.conductor, WorkerHandle())
        conductor = faulty_installation(conductor, injector)
        if gate is not None:
            lakefs = faulty_installation(lakefs, gate)
            conductor = faulty_installation(conductor, gate)
        around = Surroundings(
            self.clock,
            SeededIdentities(seed=number, now_ms=lambda: self.clock.epoch_ms),
            SequentialConcurrency(),
            self.shared_root or self.root / str(number),
        )
        settings = AttemptSettings(
            f"worker-{number}",
            publication=policy or self.policy,
            require_ownership=self.require_ownership,
            patience_seconds=self.patience_seconds,
        )
        worker = attempt_worker(
            lakefs,
            conductor,
            around,
            [self.task, *self.others],
            settings,
        )
        pipeline = faulty_port(worker.harness.lakefs.pipeline, "pipeline", injector)
        ports = replace(
            worker.harness,
            lakefs=replace(worker.harness.lakefs, pipeline=pipeline),
            body=faulty_port(cast("TaskBody", InlineBody(worker.tasks)), "body", injector),
            directories=faulty_port(worker.harness.directories, "directories", injector),
        )
        return replace(worker, harness=ports, reports=self.reports)

    async def drive(self, work: Awaitable[T]) -> T:
        """Run something to its end, moving the clock whenever everybody sleeps."""
        running = asyncio.ensure_future(work)
        for _ in range(TURNS_MAX):
            if running.done():
                break
            await asyncio.sleep(0)
            seconds = self.clock.seconds_to_next()
            if not running.done() and seconds is not None:
                await self.clock.let_pass(seconds)
        assert running.done(), "the attempt does not end"
        return running.result()

    async def attempt(self, worker: AttemptWorker) -> AttemptReport | None:
        """Poll and run one attempt; None when its process died or nothing waited."""
        try:
            record = await worker.poll(TASK)
            return None if record is None else await self.drive(worker.run(record))
        except (ProcessDied, UnavailableError, OutcomeUnknownError):
            return None

    async def report(self, *faults: Fault) -> AttemptReport:
        """Run one attempt that is to end, in a new process that meets each of these faults."""
        report = await self.report_of(self.worker(faults))
        left = [fault for fault in self.planned if not fault.moment.each_time]
        assert left == [], "the moment of a fault never came"
        return report

    async def report_of(self, worker: AttemptWorker) -> AttemptReport:
        """Run one attempt of this process that is to end."""
        report = await self.attempt(worker)
        assert report is not None, "the process died, or nothing waited"
        return report

    async def stand_still(self, worker: AttemptWorker) -> "asyncio.Future[AttemptReport]":
        """Run an attempt of the newest process until it stands still as a planned zombie does."""
        handle = self.workers[-1]
        record = await worker.poll(TASK)
        assert record is not None
        running = asyncio.ensure_future(worker.run(record))
        while not (handle.waits_for or running.done()):  # noqa: ASYNC110 - driven by hand
            await asyncio.sleep(0)
        return running

    async def lose_lease(self) -> None:
        """The response time-out of whoever worked passes, and Conductor schedules a retry."""
        self.clock.advance(self.response_seconds + 1)
        await self.operator.workflows.decide(self.workflow)

    def requests(self, number: int = 0) -> Counter[str]:
        """What a process asked the servers, without its own disk and task function."""
        calls = self.workers[number].calls
        return Counter(
            {name: calls[name] for name in calls if name.partition(".")[0] not in LOCAL_PORTS}
        )

    async def finish(self, attempts_max: int = ATTEMPTS_MAX) -> WorkflowRecord:
        """Let healthy workers and due time-outs bring the workflow to its end."""
        for _ in range(attempts_max):
            workflow = await self.read()
            if workflow.status is not WorkflowStatus.RUNNING:
                return workflow
            await self.attempt(self.worker())
            await self.lose_lease()
        return await self.read()

    async def read(self) -> WorkflowRecord:
        """The workflow now."""
        workflow = await self.operator.workflows.read(self.workflow)
        assert workflow is not None
        return workflow

    async def reset_task(
        self, reference: str = TASK, injector: FaultInjector | None = None
    ) -> Reset:
        """An operator's `perago reset-task`."""
        lakefs = lakefs_installation(self.lakefs, WorkerHandle())
        if injector is not None:
            lakefs = faulty_installation(lakefs, injector)
        tools = ResetTools(lakefs, self.operator.workflows, self.clock)
        return await reset_task(tools, self.repository.id, self.workflow, reference)

    def publications(self) -> list[CommitRecord]:
        """Commits of our task on the target above the input, newest first."""
        above = self.above_input()
        return [record for record in above if LOGICAL_TASK_KEY in record.metadata]

    def above_input(self) -> list[CommitRecord]:
        """All commits on the target above the input, newest first."""
        history = self.repository.history()
        ids = [record.commit for record in history]
        assert self.input in ids, "the input left the history of the target"
        return history[: ids.index(self.input)]


def reason_of(report: AttemptReport) -> str:
    """What an attempt told Conductor."""
    assert report.update is not None, report.error
    return str(report.update.reason)


async def at_each_request(
    root: Path,
    policy: PolicySetting,
    *,
    first: int = 1,
    **given: Any,  # noqa: ANN401 - fields of the harness
) -> AsyncIterator[tuple[int, AttemptHarness]]:
    """For each request of a healthy attempt its number, and a harness whose attempt waits for it.

    The first one is the poll.
    """
    healthy = await AttemptHarness(root / "healthy", policy, **given).started()
    assert (await healthy.report()).error is None
    await assert_accepted(healthy)
    for nth in range(first, healthy.requests().total() + 1):
        yield nth, await AttemptHarness(root / str(nth), policy, **given).started()


async def assert_accepted(harness: AttemptHarness, *, publications_max: int = 1) -> None:
    """What must hold when everything has come to rest and the workflow completed.

    The accepted commit is on the target, it is the newest of this task, its tree is exactly
    the accepted run's, its result is that run's, nothing outside the prefix changed.
    """
    workflow = await harness.read()
    assert workflow.status is WorkflowStatus.COMPLETED, workflow.reason
    output = workflow.attempts[-1].output_data
    published, result = output["workspace"], output["result"]
    assert isinstance(published, dict)
    run = Result.model_validate(result).run
    found = harness.publications()
    assert len(found) <= publications_max, [record.metadata for record in found]
    files = harness.repository.files()
    if harness.changes:
        assert found, "nothing of this task is on the target"
        assert published["ref"] == found[0].commit
        expected = {
            "data/kept.txt": b"kept",
            "data/out.txt": f"new {run}".encode(),
            f"data/only-{run}.txt": b"of this run",
        }
    else:
        expected = {"data/kept.txt": b"kept", "data/old.txt": b"old"}
        assert published["ref"] == (found[0].commit if found else harness.input)
    mine = {path: content for path, content in files.items() if path.startswith("data/")}
    assert mine == expected
    assert files["elsewhere/other.txt"] == b"other"
    if harness.fenced:
        assert files[FENCE_PATH] == FENCE_FILE
