"""Real lakeFS and Conductor on which a transcript is replayed.

Time is the transcript's: what servers say of times is translated into it. Leases last real seconds,
and are kept until the transcript lets them expire. Every stage has names of its own.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast, final

from tests.contract.real_lakefs import RealLakeFS
from tests.simulation.bridge.held import Hold
from tests.simulation.bridge.memory_stage import HeldStage
from tests.simulation.bridge.real_people import RealPeople
from tests.simulation.bridge.real_pipeline import RealPipeline
from tests.simulation.bridge.served_time import ServedTime
from tests.simulation.bridge.words import Words
from tests.simulation.mix import Foreign, Mix, Verb
from tests.simulation.moves import OPERATORS_REASON, OTHER_PARAMS
from tests.simulation.scene import (
    MAIN,
    OLD_INPUT_SECONDS,
    SPECS,
    files_of,
    task_definition,
    workflow_definition,
    workflow_input,
    workspace_at,
)
from tests.simulation.steering import MICROSECONDS, SteeredClock, SteeredHandle
from tests.simulation.workspace import Disk, task_on

from perago.adapters.system import SystemClock
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.runs.finish import BUILT_IN
from perago.domain.attempt import AttemptRecord, AttemptStatus
from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports.errors import MissingError, RequestRefusedError, ServiceError
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.testing.fault_injector import faulty_installation
from perago.testing.servers import Send

LEASE_SECONDS = 8
BEAT_SECONDS = 2.0
LATE_BEAT_SECONDS = 6.0  # then a lease may have expired that the transcript keeps
LOOK_SECONDS = 0.2
EXPIRY_SECONDS_MAX = 40.0
WAITS_MAX = 100  # of one transcript
MILLISECONDS = 1_000
SERVER_TIMES = frozenset({"start_time", "ended_at"})


class BeatsLateError(Exception):
    """The machine was too slow to keep the leases: what the servers did says nothing."""


@final
class RealStage(HeldStage):
    """One repository and one workflow of its own on real servers."""

    def __init__(self, mix: Mix, lakefs: RealLakeFS, conductor: ConductorInstallation) -> None:
        self._mix, self._harness, self._conductor = mix, lakefs, conductor
        self._ending = f"_{secrets.token_hex(4)}"
        self._lakefs = lakefs.installation()
        self._clock = SteeredClock()
        self._real = SystemClock()
        self._times = ServedTime(self._clock)
        self._kept: dict[str, AttemptRecord] = {}
        self._beat = self._real.monotonic()
        self._tasks = {
            f"{name}{self._ending}": task_on(f"{name}{self._ending}", **SPECS[name])
            for name in SPECS
        } | {f"{each.name}{self._ending}": self._named(each) for each in BUILT_IN}
        self._people = RealPeople(lakefs, RepositoryId(""), self._times)
        self._input = CommitId("")
        self._workflow = ""
        self._waits = 0

    @property
    def mix(self) -> Mix:
        """What the workflow looks like."""
        return self._mix

    @property
    def clock(self) -> SteeredClock:
        """The transcript's clock."""
        return self._clock

    @property
    def repository_id(self) -> RepositoryId:
        """The one repository."""
        return self._people.repository

    @property
    def workflow(self) -> str:
        """The id of the workflow."""
        return self._workflow

    @property
    def tasks(self) -> Mapping[str, TaskDefinition]:
        """The tasks, each with this stage's ending."""
        return self._tasks

    @property
    def input(self) -> CommitId:
        """The commit that the workflow starts from."""
        return self._input

    @property
    def lakefs_ports(self) -> LakeFSInstallation:
        """The lakeFS, for looking at it."""
        return faulty_installation(self._lakefs, _Translating(self._times))

    @property
    def conductor_ports(self) -> ConductorInstallation:
        """The Conductor, for looking at it."""
        return faulty_installation(self._conductor, _Translating(self._times))

    def words(self) -> Words:
        """Words that know what only this stage is called."""
        return Words({self._people.repository: "repo", self._ending: ""})

    def lakefs_for(self, handle: SteeredHandle) -> LakeFSInstallation:
        """The ports of lakeFS of one process."""
        return faulty_installation(self._lakefs, Hold(handle, self._send))

    def conductor_for(self, handle: SteeredHandle) -> ConductorInstallation:
        """The ports of Conductor of one process."""
        return faulty_installation(self._conductor, Hold(handle, self._send))

    def new_disk(self) -> Disk:
        """Each process has its own."""
        return Disk()

    def pipeline_for(self, handle: SteeredHandle, disk: Disk) -> RealPipeline:
        """The transfers of one process."""
        return RealPipeline(self._harness, handle, disk)

    def uploads_for(self, handle: SteeredHandle, disk: Disk) -> None:
        """No function takes checkpoints here."""

    async def open(self) -> None:
        """Create, register and start, as `open_scene` does in memory."""
        mix = self._mix
        repository = await self._harness.create_repository()
        self._people = RealPeople(self._harness, repository, self._times)
        self._input = await self._people.commit_files(files_of(mix))
        if mix.protected:
            await self._harness.protect(repository, MAIN)
        await self._times.move_to(OLD_INPUT_SECONDS * MICROSECONDS)
        for name in self._tasks:
            await self._conductor.definitions.put(task_definition(name, LEASE_SECONDS))
        flow = f"flow{self._ending}"
        definition = workflow_definition(mix, flow, self._ending)
        await self._conductor.workflows.put_definition(definition)
        given = workflow_input(mix, workspace_at(repository, self._input))
        self._workflow = await self._conductor.workflows.start(flow, given)
        self._beat = self._real.monotonic()

    async def keep_leases(self) -> None:
        """One beat for every row that was polled and may live."""
        now = self._real.monotonic()
        if now - self._beat < BEAT_SECONDS:
            return
        if now - self._beat > LATE_BEAT_SECONDS and self._kept:
            raise BeatsLateError(f"{now - self._beat:.1f} s without a beat")
        self._beat = now
        for task_id, record in list(self._kept.items()):
            try:
                await self._conductor.queue.extend_lease(
                    record.snapshot, str(record.snapshot.worker_id)
                )
            except MissingError:  # a restart has removed the row
                del self._kept[task_id]

    async def waits(self) -> bool:
        """Wait a moment, unless what is waited for should have been there long ago."""
        self._waits += 1
        await asyncio.sleep(LOOK_SECONDS)
        await self.keep_leases()
        await self._conductor.workflows.decide(self._workflow)
        return self._waits < WAITS_MAX

    async def let_time_pass(self, moment: int, expired: Sequence[str]) -> None:
        """Move the clock, and wait for the leases that end there."""
        await self._times.move_to(moment)
        for task_id in expired:
            self._kept.pop(task_id, None)
        deadline = self._real.monotonic() + EXPIRY_SECONDS_MAX
        for task_id in expired:
            while not await self._has_expired(task_id):
                if self._real.monotonic() > deadline:
                    raise TimeoutError(f"the lease of {task_id} does not expire")
                await asyncio.sleep(LOOK_SECONDS)
                await self.keep_leases()

    async def operate(self, verb: Verb) -> bool:
        """What an operator does."""
        try:
            await self._operate(verb)
        except RequestRefusedError:
            return False
        return True

    async def requeue(self) -> None:
        """Hand out every open row again."""
        for name in self._tasks:
            await self._conductor.workflows.requeue(name)

    async def commit(self, kind: Foreign, count: int, source: str) -> CommitId | None:
        """What another tool does to the target branch."""
        try:
            return await self._people.commit(kind, count, source)
        except ServiceError:
            return None

    def _named(self, built_in: TaskDefinition) -> TaskDefinition:
        """A built-in task under a name of this stage, because others work on the same server."""
        return replace(built_in, name=f"{built_in.name}{self._ending}")

    async def _send(self, send: Send) -> object:
        answer: object = self._times.translated(await send())
        self._times.made(answer)
        self._keep(answer)
        return answer

    def _keep(self, answer: object) -> None:
        """Remember what was polled: its lease is kept from now on."""
        if isinstance(answer, tuple):
            for record in cast("tuple[object, ...]", answer):
                if isinstance(record, AttemptRecord):
                    self._kept[record.snapshot.task_id] = record

    async def _has_expired(self, task_id: str) -> bool:
        await self._conductor.workflows.decide(self._workflow)
        row = await self._conductor.queue.read_attempt(self._workflow, task_id)
        return row is None or row.snapshot.status is not AttemptStatus.IN_PROGRESS

    async def _operate(self, verb: Verb) -> None:
        workflows, workflow = self._conductor.workflows, self._workflow
        match verb:
            case Verb.TERMINATE:
                await workflows.terminate(workflow, OPERATORS_REASON)
            case Verb.RETRY:
                await workflows.retry(workflow)
            case Verb.RERUN:
                await workflows.rerun(workflow, await self._newest_row())
            case Verb.RERUN_OTHER:
                head = (await self._lakefs.branches.head(self._people.repository, MAIN)).commit
                workspace = workspace_at(self._people.repository, head)
                given = {"workspace": workspace, "params": OTHER_PARAMS}
                await workflows.rerun(workflow, await self._newest_row(), given)
            case Verb.RESTART:
                await workflows.restart(workflow)
            case Verb.PAUSE:
                await workflows.pause(workflow)
            case Verb.RESUME:
                await workflows.resume(workflow)

    async def _newest_row(self) -> str:
        run = self._times.translated(await self._conductor.queue.read_workflow(self._workflow))
        assert run is not None, "the workflow is there"
        return [row for row in run.tasks if row.reference_name == self._mix.rerun_from][-1].task_id


@final
class _Translating:
    """Lets every call through at once, its times translated."""

    def __init__(self, times: ServedTime) -> None:
        self._times = times

    async def passes(self, call: object, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Answer."""
        del call
        return self._times.translated(await send())
