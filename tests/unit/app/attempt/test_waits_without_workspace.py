"""Attempts without a workspace: a service that is away costs them no run and no retry."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast, final

import pytest
from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker
from tests.unit.app.attempt.attempt_harness import RESPONSE_SECONDS, AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK

from perago.app.attempt.context import Attempt
from perago.app.attempt.ending import HANDED_BACK
from perago.app.attempt.patience import CONDUCTOR, LAKEFS, StopOrder
from perago.app.attempt.run_attempt import AttemptReport, run_attempt
from perago.app.authoring.task_declaration import task, task_of
from perago.app.runs.join import JOIN_TASK
from perago.domain.attempt import PATIENCE_SECONDS, AttemptStatus, WorkflowStatus
from perago.domain.hand_back import HAND_BACKS_MAX, Cause
from perago.domain.policy import PolicySetting
from perago.ports.errors import OutcomeUnknownError
from perago.ports.task_body import BodyStopped, Lease, NoLease
from perago.ports.workspace import Phase
from perago.testing.fault_injector import CallGate, faulty_port
from perago.testing.faults import ANY_CALL, Call, Fault, Moment, Outage, Side, outage

Answer = TypeVar("Answer")

POLICIES = [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE, PolicySetting.SETTLED]
OUTAGE_SECONDS = 20.0
AWAY_FOR_EVER = outage(before="commits.first_parents", seconds=1e6)


@dataclass
class Scene:
    """A workflow with one task without a workspace, and workers that serve it."""

    harness: AttemptHarness
    name: str
    params: dict[str, object] = field(default_factory=dict[str, object])

    async def start(self) -> None:
        """Register and start it."""
        harness = self.harness
        definition: dict[str, object] = {"name": self.name, "ownerEmail": "data@example.com"}
        definition |= {"retryCount": 10, "retryDelaySeconds": 0, "timeoutSeconds": 0}
        definition |= {"responseTimeoutSeconds": harness.response_seconds}
        await harness.operator.definitions.put(definition)
        row: dict[str, object] = {"name": self.name, "taskReferenceName": "only"}
        row |= {"type": "SIMPLE", "inputParameters": {"params": self.params}}
        await harness.operator.workflows.put_definition(
            {"name": "flow", "version": 1, "schemaVersion": 2, "tasks": [row]}
        )
        harness.workflow = await harness.operator.workflows.start("flow", {})

    def worker(self, *faults: Fault) -> AttemptWorker:
        """A process."""
        return self.harness.worker(faults)

    async def run(self, worker: AttemptWorker, lease: Lease | None = None) -> AttemptReport:
        """Poll one attempt and run it to its end."""
        record = await worker.poll(self.name)
        assert record is not None
        attempt = Attempt(
            ports=worker.harness,
            task=worker.tasks[self.name],
            record=record,
            execution_id=worker.harness.identities.new_execution_id(),
            settings=worker.settings,
        )
        return await self.harness.drive(run_attempt(attempt, lease or NoLease()))

    async def assert_one_row(self, *, polls: int = 1) -> None:
        """The workflow completed, and its one row was polled so often."""
        record = await self.harness.read()
        rows = [(row.snapshot.status, row.snapshot.poll_count) for row in record.attempts]
        assert rows == [(AttemptStatus.COMPLETED, polls)], [row.reason for row in record.attempts]
        assert record.status is WorkflowStatus.COMPLETED


def join_scene(
    root: Path,
    policy: PolicySetting = PolicySetting.SETTLED,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Scene:
    """A join of two commits of one branch."""
    harness = AttemptHarness(root, policy, patience_seconds=patience_seconds)
    harness.task = JOIN_TASK
    refs = [harness.input, harness.human()]
    return Scene(
        harness, JOIN_TASK.name, {"workspaces": [harness.workspace(ref=ref) for ref in refs]}
    )


class Params(BaseModel):
    """Nothing to choose."""


class Counted(BaseModel):
    """Which run it was."""

    run: int


def free_scene(
    root: Path,
    response_seconds: int = RESPONSE_SECONDS,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Scene:
    """A task without a workspace that counts its runs."""
    harness = AttemptHarness(
        root,
        PolicySetting.SETTLED,
        response_seconds=response_seconds,
        patience_seconds=patience_seconds,
    )

    @task(name=TASK, owner_email="data@example.com")
    def count(params: Params) -> Counted:
        del params
        harness.runs += 1
        return Counted(run=harness.runs)

    harness.task = task_of(count)
    return Scene(harness, TASK)


def waits_of(worker: AttemptWorker) -> list[tuple[Phase, object]]:
    """The waits that were reported, by service."""
    waits = {Phase.WAITING, Phase.WAITED}
    return [(phase, facts["service"]) for phase, facts in worker.progress.events if phase in waits]


async def _calls(scene: Scene) -> int:
    await scene.start()
    await scene.run(scene.worker())
    await scene.assert_one_row()
    return scene.harness.requests().total()


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_an_outage_at_any_call_of_a_join_costs_it_no_attempt(
    tmp_path: Path, policy: PolicySetting, side: Side
) -> None:
    struck: set[str] = set()
    for nth in range(2, await _calls(join_scene(tmp_path / "healthy", policy)) + 1):
        scene = join_scene(tmp_path / str(nth), policy)
        await scene.start()
        worker = scene.worker(Outage(Moment(ANY_CALL, side, nth=nth), OUTAGE_SECONDS))
        await scene.run(worker)
        await scene.assert_one_row()
        (service,) = scene.harness.workers[0].outages.until
        if not (service == CONDUCTOR and side is Side.AFTER):  # found by the first look
            assert waits_of(worker) == [(Phase.WAITING, service), (Phase.WAITED, service)]
        struck.add(service)
    assert struck == {CONDUCTOR, LAKEFS}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_join_whose_patience_is_over_hands_its_row_back(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """Under every policy: a join publishes nothing, so the documents promise nothing of it."""
    scene = join_scene(tmp_path, policy, patience_seconds=30)
    await scene.start()
    report = await scene.run(scene.worker(AWAY_FOR_EVER))
    assert report.status == HANDED_BACK
    (row,) = (await scene.harness.read()).attempts
    assert row.snapshot.status is AttemptStatus.SCHEDULED
    assert "for lakeFS, until PERAGO_PATIENCE was over" in str(row.reason)
    scene.harness.clock.advance(10)
    await scene.run(scene.worker())
    await scene.assert_one_row(polls=2)


async def test_a_join_is_handed_back_five_times_and_then_fails_with_all_reasons(
    tmp_path: Path,
) -> None:
    scene = join_scene(tmp_path, patience_seconds=30)
    await scene.start()
    ends: list[str] = []
    for _ in range(HAND_BACKS_MAX + 1):
        ends.append((await scene.run(scene.worker(AWAY_FOR_EVER))).status)
        scene.harness.clock.advance(1000)
    assert ends == [HANDED_BACK] * HAND_BACKS_MAX + ["FAILED"]
    assert "PRG-U002" in str((await scene.harness.read()).attempts[0].reason)


@final
class DrainWhile(StopOrder):
    """The grace of a drain is over as soon as the attempt waits."""

    async def before_end_of(self, work: Awaitable[Answer]) -> Answer | BodyStopped:
        """The order."""
        asyncio.ensure_future(work).cancel()
        return BodyStopped("worker draining: a deploy", Cause.DRAIN)


async def test_a_drain_ends_the_wait_of_a_join_and_its_row_goes_back(tmp_path: Path) -> None:
    scene = join_scene(tmp_path)
    await scene.start()
    worker = scene.worker(AWAY_FOR_EVER)
    worker = replace(worker, harness=replace(worker.harness, stop_order=DrainWhile()))
    report = await scene.run(worker)
    assert report.status == HANDED_BACK
    (row,) = (await scene.harness.read()).attempts
    assert "worker draining: a deploy" in str(row.reason)
    await scene.run(scene.worker())  # at once: a drain says nothing of the next worker
    await scene.assert_one_row(polls=2)


@pytest.mark.parametrize("side", Side)
async def test_an_outage_at_any_call_of_a_task_without_a_workspace_costs_no_run(
    tmp_path: Path, side: Side
) -> None:
    for nth in range(2, await _calls(free_scene(tmp_path / "healthy")) + 1):
        scene = free_scene(tmp_path / str(nth))
        await scene.start()
        worker = scene.worker(Outage(Moment(ANY_CALL, side, nth=nth), OUTAGE_SECONDS))
        await scene.run(worker)
        await scene.assert_one_row()
        assert scene.harness.runs == 1
        assert waits_of(worker) == [(Phase.WAITING, "Conductor"), (Phase.WAITED, "Conductor")]


@final
class LastBeat(Lease):
    """A lease whose last beat was answered at one moment."""

    def __init__(self, at: float) -> None:
        self._at = at

    @property
    def last_beat(self) -> float:
        """That moment."""
        return self._at

    async def end(self) -> None:
        """Nothing is under way."""


@pytest.mark.parametrize(("away", "status"), [(170, "RECORDED"), (190, "UNKNOWN")])
async def test_the_outcome_is_delivered_as_long_as_the_row_is_ours(
    tmp_path: Path, away: float, status: str
) -> None:
    """Also without patience, which is for steps that could be given up."""
    scene = free_scene(tmp_path, response_seconds=180, patience_seconds=0)
    await scene.start()
    clock = scene.harness.clock
    worker = scene.worker(outage(before="complete", seconds=away))
    report = await scene.run(worker, LastBeat(clock.monotonic()))
    assert report.recorded.name == status
    assert scene.harness.runs == 1


@final
class Silent(CallGate):
    """The first completion arrives nowhere and is not answered, as by a network that drops it."""

    def __init__(self, scene: Scene) -> None:
        self._clock = scene.harness.clock
        self.timeouts: list[float] = []

    async def passes(self, call: Call, send: Any) -> Any:  # noqa: ANN401 - any port's
        """Let the time of the first completion run out."""
        if call.operation == "queue.complete":
            self.timeouts.append(cast("float", call.options["timeout_seconds"]))
            if len(self.timeouts) == 1:
                await self._clock.sleep(self.timeouts[0])
                raise OutcomeUnknownError("no answer")
        return await send()


async def test_a_completion_that_is_not_answered_leaves_time_for_another(tmp_path: Path) -> None:
    scene = free_scene(tmp_path, response_seconds=600)
    await scene.start()
    silent, began = Silent(scene), scene.harness.clock.monotonic()
    worker = scene.worker()
    queue = faulty_port(worker.harness.queue, "queue", silent)
    worker = replace(worker, harness=replace(worker.harness, queue=queue))
    report = await scene.run(worker, LastBeat(began))
    assert report.recorded.name == "RECORDED"
    assert len(silent.timeouts) == 2
    assert scene.harness.clock.monotonic() - began < 60
