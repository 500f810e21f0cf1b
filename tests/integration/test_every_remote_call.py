"""Every remote call of an attempt on real lakeFS and real Conductor, struck in every way."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pytest
from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker, attempt_worker
from tests.contract.real_lakefs import RealLakeFS, connected

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.adapters.system import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.app.attempt.context import AttemptSettings
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowStatus
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import CommitId, RepositoryId
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.ports.conductor import PollRequest, TerminalUpdate
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.contract.cutting_proxy import CuttingProxy, cutting_proxy
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.fault_injector import (
    CallGate,
    FaultInjector,
    ProcessDied,
    faulty_installation,
)
from perago.testing.faults import ANY_CALL, Call, Fault, crash, lose_answer
from perago.testing.servers import Surroundings
from perago_servers import ConductorServer, LakefsServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.timeout(900)]

POLICIES = [PolicySetting.SETTLED, PolicySetting.HEAD_PARENT]
STRIKES: Mapping[str, Callable[[int], Fault]] = {
    "crash before": lambda nth: crash(before=ANY_CALL, nth=nth),
    "crash after": lambda nth: crash(after=ANY_CALL, nth=nth),
    "lose answer": lambda nth: lose_answer(ANY_CALL, nth=nth),
}
ATTEMPTS_MAX = 6
SIDE_BY_SIDE = 4


class Params(BaseModel):
    """No parameters."""


class Result(BaseModel):
    """The number of the run."""

    run: int


@dataclass(frozen=True, slots=True)
class Wire:
    """Both services as a worker reaches them, by way of proxies that lose answers."""

    lakefs: LakeFSInstallation
    conductor: ConductorInstallation
    proxies: tuple[CuttingProxy, CuttingProxy]

    @property
    def answers_lost(self) -> int:
        """How many answers the proxies have cut."""
        return sum(proxy.answers_lost for proxy in self.proxies)


@asynccontextmanager
async def opened_wire(lakefs: LakefsServer, conductor: ConductorServer) -> AsyncGenerator[Wire]:
    """Two proxies and clients of their own."""
    async with (
        cutting_proxy(lakefs.endpoint) as to_lakefs,
        cutting_proxy(conductor.api_url) as to_conductor,
        connected(lakefs, to_lakefs.url) as reached,
    ):
        settings = ConductorSettings(url=to_conductor.url, request_timeout_seconds=60)
        opened: ConductorInstallation = open_conductor(settings)
        try:
            yield Wire(reached.installation(), opened, (to_lakefs, to_conductor))
        finally:
            await opened.close()


@final
class CutsAnswers(CallGate):
    """The answers to one call are cut, those to its repetitions by the client as well."""

    def __init__(self, wire: Wire, nth: int) -> None:
        self._proxies = wire.proxies
        self._left = nth
        self.operation = ""

    async def passes(self, call: Call, send: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        """Cut while the call is under way."""
        self._left -= 1
        if self._left:
            return await send()
        self.operation = call.operation
        for proxy in self._proxies:
            proxy.cut()
        try:
            return await send()
        finally:
            for proxy in self._proxies:
                proxy.heal()


@dataclass
class Case:
    """One workflow of one task in a repository of its own."""

    lakefs: RealLakeFS
    conductor: ConductorInstallation
    root: Path
    policy: PolicySetting
    wire: Wire | None = None
    runs: int = 0

    def __post_init__(self) -> None:
        name = self.lakefs.unique_name("edit")

        @task(name=name, owner_email="data@example.com", workspace=WorkspaceSpec(prefix="data"))
        def edit(workspace: Path, params: Params) -> Result:
            del params
            self.runs += 1
            (workspace / "out.txt").write_text(f"run {self.runs}")
            (workspace / "old.txt").unlink()
            return Result(run=self.runs)

        self.task: TaskDefinition = task_of(edit)

    async def start(self) -> None:
        """Repository, definitions, workflow."""
        self.repository: RepositoryId = await self.lakefs.create_repository()
        files = {FENCE_PATH: FENCE_FILE, "data/old.txt": b"old", "data/kept.txt": b"kept"}
        self.input: CommitId = await self.lakefs.commit_files(
            self.repository, MAIN, {**files, "elsewhere/x": b"x"}
        )
        name = self.task.name
        definition: dict[str, object] = {"name": name, "ownerEmail": "data@example.com"}
        definition |= {"retryCount": 10, "retryDelaySeconds": 0, "timeoutSeconds": 0}
        await self.conductor.definitions.put({**definition, "responseTimeoutSeconds": 600})
        row = simple(name, name, {"workspace": "${workflow.input.workspace}", "params": {}})
        await self.conductor.workflows.put_definition(workflow_of(name, row))
        place = {"repository": self.repository, "branch": MAIN, "refType": "commit"}
        self.workflow = await self.conductor.workflows.start(
            name, {"workspace": {**place, "ref": self.input}}
        )

    def worker(self, gate: CallGate) -> AttemptWorker:
        """A process of its own."""
        ports = self.lakefs.installation() if self.wire is None else self.wire.lakefs
        conductor = self.conductor if self.wire is None else self.wire.conductor
        around = Surroundings(SystemClock(), self.root, SystemIdentities(), AsyncioConcurrency())
        name = self.lakefs.unique_name("worker")
        settings = AttemptSettings(name, publication=self.policy)
        return attempt_worker(
            faulty_installation(ports, gate),
            faulty_installation(conductor, gate),
            around,
            [self.task],
            settings,
        )

    async def attempt(self, gate: CallGate) -> None:
        """One attempt; when its process dies, whoever watches it reports the failure."""
        worker = self.worker(gate)
        request = PollRequest(self.task.name, worker.settings.worker_id)
        polled = await self.conductor.queue.poll(request)
        if not polled:
            return
        record = polled[0]
        try:
            await worker.run(record)
        except ProcessDied:
            await self._report_death(record)

    async def _report_death(self, record: AttemptRecord) -> None:
        update = TerminalUpdate(
            record.snapshot,
            record.snapshot.worker_id or "",
            AttemptStatus.FAILED,
            reason="the process died",
        )
        await self.conductor.queue.complete(update, timeout_seconds=10)

    async def finish(self) -> None:
        """Healthy processes bring the workflow to its end, and it must be a good one."""
        for _ in range(ATTEMPTS_MAX):
            workflow = await self.conductor.workflows.read(self.workflow)
            assert workflow is not None
            if workflow.status is not WorkflowStatus.RUNNING:
                break
            await self.attempt(FaultInjector())
        workflow = await self.conductor.workflows.read(self.workflow)
        assert workflow is not None
        assert workflow.status is WorkflowStatus.COMPLETED, workflow.reason
        output = workflow.attempts[-1].output_data
        place, result = output["workspace"], output["result"]
        assert isinstance(place, dict)
        run = Result.model_validate(result).run
        walk = await self.lakefs.commits.first_parents(
            self.repository, MAIN, self.input, commits_max=10
        )
        assert [record.commit for record in walk.above] == [place["ref"]]
        assert LOGICAL_TASK_KEY in walk.above[0].metadata
        listed = await self.lakefs.objects.list_page(self.repository, MAIN, prefix="")
        paths = {"data/kept.txt", "data/out.txt", "elsewhere/x", FENCE_PATH}
        assert {entry.path for entry in listed.items} == paths
        content = await self.lakefs.objects.read(self.repository, MAIN, "data/out.txt")
        assert content == f"run {run}".encode()

    async def assert_nothing_was_spent(self) -> None:
        """One row, polled once, completed; the function ran once."""
        workflow = await self.conductor.workflows.read(self.workflow)
        assert workflow is not None
        rows = [(row.snapshot.status, row.reason) for row in workflow.attempts]
        assert rows == [(AttemptStatus.COMPLETED, None)]
        assert workflow.attempts[0].snapshot.poll_count == 1
        assert self.runs == 1

    async def decided(self) -> bool:
        """Whether a decision tag is there."""
        page = await self.lakefs.tags.list_page(self.repository, "perago-settled-")
        return bool(page.items)


@pytest.mark.parametrize("strike", STRIKES)
@pytest.mark.parametrize("policy", POLICIES, ids=[str(policy) for policy in POLICIES])
async def test_an_attempt_with_a_fault_at_any_call_ends_in_one_publication(
    lakefs: RealLakeFS,
    conductor: ConductorInstallation,
    tmp_path: Path,
    policy: PolicySetting,
    strike: str,
) -> None:
    calls = await _calls_of_a_healthy_attempt(Case(lakefs, conductor, tmp_path, policy))
    turns = asyncio.Semaphore(SIDE_BY_SIDE)

    async def struck_at(nth: int) -> None:
        async with turns:
            case = Case(lakefs, conductor, tmp_path, policy)
            await case.start()
            await case.attempt(FaultInjector([STRIKES[strike](nth)]))
            decided = await case.decided()
            try:
                if strike == "lose answer":
                    await case.assert_nothing_was_spent()
                await case.finish()
                assert not decided or case.runs == 1, "the body ran again after the decision"
            except AssertionError as error:
                error.add_note(f"{strike} at call {nth}")
                raise

    await asyncio.gather(*(struck_at(nth) for nth in range(1, calls + 1)))


@pytest.mark.parametrize("policy", POLICIES, ids=[str(policy) for policy in POLICIES])
async def test_no_answer_that_is_lost_on_the_wire_costs_a_row(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    lakefs: RealLakeFS,
    conductor: ConductorInstallation,
    tmp_path: Path,
    policy: PolicySetting,
) -> None:
    calls = await _calls_of_a_healthy_attempt(Case(lakefs, conductor, tmp_path, policy))
    turns = asyncio.Semaphore(SIDE_BY_SIDE)
    asked_nothing: list[str] = []

    async def cut_at(nth: int) -> None:
        async with turns, opened_wire(lakefs_server, conductor_server) as wire:
            case = Case(lakefs, conductor, tmp_path, policy, wire)
            await case.start()
            gate = CutsAnswers(wire, nth)
            await case.attempt(gate)
            try:
                await case.assert_nothing_was_spent()
                await case.finish()
            except AssertionError as error:
                error.add_note(f"at call {nth}, {gate.operation}")
                raise
            if not wire.answers_lost:
                asked_nothing.append(gate.operation)

    await asyncio.gather(*(cut_at(nth) for nth in range(1, calls + 1)))
    assert asked_nothing == []


async def _calls_of_a_healthy_attempt(case: Case) -> int:
    await case.start()
    injector = FaultInjector()
    await case.attempt(injector)
    await case.finish()
    calls = injector.calls.total()
    assert calls > 10
    return calls
