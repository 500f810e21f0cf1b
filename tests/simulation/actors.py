"""The processes of a schedule: attempts, passes of gc, an operator's `reset-task`.

Each is the application's own coroutine on ports of its own. Which one goes on, and what becomes of
its calls, is the engine's.
"""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Protocol, final

from tests.simulation.mix import Mix
from tests.simulation.old_version import run_old_attempt
from tests.simulation.steering import (
    OnDisk,
    SteeredClock,
    SteeredConcurrency,
    SteeredHandle,
    SteeredIdentities,
    Stop,
    as_stop,
)
from tests.simulation.workspace import (
    Disk,
    SimulatedBody,
    SimulatedDirectories,
)

from perago.app.attempt.context import (
    Attempt,
    AttemptPorts,
    AttemptSettings,
    LakeFS,
)
from perago.app.attempt.reset_task import ResetTools, reset_task
from perago.app.attempt.run_attempt import AttemptReport, run_attempt
from perago.app.authoring.checkpoint_copies import claim, make_empty, release
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.fence.trust import FenceTools, FenceTrust
from perago.app.gc.remote_pass import RemotePass
from perago.app.runs.held_runs import abandon_run
from perago.domain.attempt import AttemptRecord
from perago.domain.lakefs import CommitId, RepositoryId
from perago.domain.policy import PolicySetting
from perago.domain.retention import RetentionTimes
from perago.domain.run import RunKey
from perago.ports.conductor import PollRequest
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.task_body import Lease
from perago.ports.workspace import DirectoryUploads, Phase, Progress, WorkspacePipeline
from perago.testing.fault_injector import ProcessDied

GC = "gc"
RESET = "reset-task"
ABANDON = "abandon"
SEEN_AS = {
    Phase.RECOVERED: frozenset({"went on with a kept outcome"}),
    Phase.CHECKPOINTED: frozenset({"took a checkpoint"}),
    Phase.WENT_ON: frozenset({"went on from a checkpoint"}),
}
DEFAULT_AGES = RetentionTimes()
AGES_OF_ZERO = RetentionTimes(*(timedelta(0) for _ in fields(RetentionTimes)))


class Stage(Protocol):
    """The servers that processes run on; every call through what it hands out is a stop."""

    @property
    def mix(self) -> Mix:
        """What the workflow looks like, and the policy of its workers."""
        ...

    @property
    def clock(self) -> SteeredClock:
        """The clock of all processes."""
        ...

    @property
    def repository_id(self) -> RepositoryId:
        """The one repository."""
        ...

    @property
    def workflow(self) -> str:
        """The id of the one workflow."""
        ...

    @property
    def tasks(self) -> Mapping[str, TaskDefinition]:
        """The tasks by the names that Conductor knows."""
        ...

    def lakefs_for(self, handle: SteeredHandle) -> LakeFSInstallation:
        """The ports of lakeFS of one process."""
        ...

    def conductor_for(self, handle: SteeredHandle) -> ConductorInstallation:
        """The ports of Conductor of one process."""
        ...

    def new_disk(self) -> Disk:
        """The disk that one process works on."""
        ...

    def pipeline_for(self, handle: SteeredHandle, disk: Disk) -> WorkspacePipeline:
        """The transfers of one process; each is one request."""
        ...

    def uploads_for(self, handle: SteeredHandle, disk: Disk) -> DirectoryUploads | None:
        """The uploads of its checkpoints; None where functions take none."""
        ...


@dataclass(slots=True, eq=False)
class Actor:
    """One process: its coroutine, where it stopped, and what is known of it."""

    name: str
    handle: SteeredHandle
    purpose: str
    """The task that it polls, or what else it is."""
    coroutine: Coroutine[Stop, object, None] | None = None
    stop: Stop = None
    steps: int = 0
    asked: int = 0
    alive: bool = True
    standing: bool = False
    record: AttemptRecord | None = None
    decided_before: bool = False
    stale_since: int | None = None
    waited: bool = False
    """It has slept since it last read its row."""
    began: float = 0.0
    started: int = 0
    report: AttemptReport | None = None
    last_call: int = 0
    heard: int = 0
    judged: tuple[str, ...] = ()
    old: bool = False
    """It is of the release before, and promises less."""
    about: str = ""
    """What an operator named; a transcript has to name it on another server too."""

    @property
    def holds_a_row(self) -> bool:
        """Whether it is an attempt that was handed a row."""
        return self.record is not None

    def go_on(self, answer: object) -> None:
        """Answer its stop, with an error by raising it there, and run it to the next one."""
        assert self.coroutine is not None, "only living processes are answered"
        if isinstance(answer, Exception):
            self.stop = as_stop(self.coroutine.throw(answer))
        else:
            self.stop = as_stop(self.coroutine.send(answer))

    def kill(self) -> None:
        """End it where it stands; nothing of it runs any more."""
        self.alive = False
        self.handle.kill()
        coroutine, self.coroutine = self.coroutine, None
        if coroutine is None:
            return
        try:
            coroutine.throw(ProcessDied())
        except (ProcessDied, StopIteration):
            return
        coroutine.close()


class Heard(Progress):
    """Collects the phases of an attempt for the counters of `sometimes`."""

    def __init__(self, seen: set[str]) -> None:
        self._seen = seen
        self._effects = 0

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        """Remember what kind of step it was."""
        self._seen |= SEEN_AS.get(phase, frozenset())
        match phase:
            case Phase.PUBLISHED:
                self._seen.add(f"published: {facts['effect']}")
                rounds = facts["rounds"]
                if isinstance(rounds, int) and rounds > 1:
                    self._seen.add("published in a later round")
            case Phase.RESUMED:
                self._seen.add("resumed a no-op" if facts["noop"] else "resumed a decision")
            case Phase.DECIDED:
                self._seen.add("decided" if facts["mine"] else "took over the decision of another")
            case Phase.COMPLETED | Phase.HANDED_BACK:
                self._seen.add(f"{facts['status']} was {facts['recorded']}")
            case Phase.CLEANED:
                self._seen.add("kept staging" if facts["staging_kept"] else "cleaned staging")
            case Phase.WARNED:
                self._seen.add(f"warned: {facts.get('warning')}")
            case _:
                pass


@final
class Beats(Lease):
    """The beats are the engine's: it lets them arrive, or not."""

    def __init__(self, clock: SteeredClock) -> None:
        self._clock = clock

    @property
    def last_beat(self) -> float:
        """A living process beats all the time."""
        return self._clock.monotonic()

    async def end(self) -> None:
        """Nothing is under way."""


@final
class ProvenTrust(FenceTrust):
    """The fence of this repository was proven before the schedule began: ten calls less."""

    async def _works(self, repository: RepositoryId, commit: CommitId) -> bool:
        del repository, commit
        return True


def new_attempt(stage: Stage, number: int, task_type: str, seen: set[str]) -> Actor:
    """A worker process that polls one row and runs it."""
    old = stage.mix.old_workers and number % 2 == 0
    actor = Actor(f"w{number}", SteeredHandle(), task_type, old=old)
    actor.coroutine = _attempt(stage, actor, number, task_type, seen)
    return actor


async def _attempt(stage: Stage, actor: Actor, number: int, task_type: str, seen: set[str]) -> None:
    harness = _harness(stage, actor.handle, number, seen)
    request = PollRequest(task_type, actor.name)
    records = await harness.queue.poll(request)
    if not records:
        return None
    actor.record = records[0]
    actor.began = stage.clock.monotonic()
    execution_id = harness.identities.new_execution_id()
    if actor.old:
        seen.add("a worker of the release before took a row")
        return await run_old_attempt(harness, actor.record, actor.name, execution_id)
    dispatch = Attempt(
        ports=harness,
        task=stage.tasks[task_type],
        record=actor.record,
        execution_id=execution_id,
        settings=AttemptSettings(
            actor.name, publication=_policy(stage, number), failure_reason_max_length=5_000
        ),
    )
    actor.report = await run_attempt(dispatch, Beats(stage.clock))
    return None


def _policy(stage: Stage, number: int) -> PolicySetting:
    other = stage.mix.other_policy
    return stage.mix.policy if other is None or number % 2 else other


def _harness(stage: Stage, handle: SteeredHandle, number: int, seen: set[str]) -> AttemptPorts:
    lakefs = stage.lakefs_for(handle)
    conductor = stage.conductor_for(handle)
    disk = stage.new_disk()
    on_disk: OnDisk = {claim: disk.claim, release: disk.release, make_empty: disk.make_empty}
    concurrency = SteeredConcurrency(on_disk)
    identities = SteeredIdentities(stage.clock, number)
    trust = FenceTrust if stage.mix.canary else ProvenTrust
    tools = FenceTools(lakefs, identities)
    return AttemptPorts(
        lakefs=LakeFS.of(
            lakefs,
            stage.pipeline_for(handle, disk),
            trust(tools, concurrency, stage.clock),
            stage.uploads_for(handle, disk),
        ),
        queue=conductor.queue,
        body=SimulatedBody(disk),
        directories=SimulatedDirectories(disk, handle),
        clock=stage.clock,
        identities=identities,
        concurrency=concurrency,
        progress=Heard(seen),
    )


def new_pass(stage: Stage, number: int) -> Actor:
    """One pass of `perago gc` over the repository."""
    actor = Actor(f"gc{number}", SteeredHandle(), GC)
    actor.coroutine = _pass(stage, actor)
    return actor


async def _pass(stage: Stage, actor: Actor) -> None:
    lakefs = stage.lakefs_for(actor.handle)
    queue = stage.conductor_for(actor.handle).queue
    times = AGES_OF_ZERO if stage.mix.gc_age_zero else DEFAULT_AGES
    if stage.mix.gc_keeps_no_run:
        times = replace(times, run=timedelta(0))
    judged = await RemotePass(lakefs, queue, stage.clock, stage.repository_id, times).run()
    actor.judged = tuple(f"{each.kind}: {each.reason}" for each in judged)


def new_reset(stage: Stage, number: int, reference: str) -> Actor:
    """An operator's `perago reset-task`."""
    actor = Actor(f"reset{number}", SteeredHandle(), RESET)
    actor.coroutine = _reset(stage, actor, reference)
    return actor


async def _reset(stage: Stage, actor: Actor, reference: str) -> None:
    lakefs = stage.lakefs_for(actor.handle)
    workflows = stage.conductor_for(actor.handle).workflows
    tools = ResetTools(lakefs, workflows, stage.clock)
    await reset_task(tools, stage.repository_id, stage.workflow, reference)


def new_abandon(stage: Stage, number: int, key: RunKey) -> Actor:
    """An operator's `perago abandon`."""
    actor = Actor(f"abandon{number}", SteeredHandle(), ABANDON, about=key)
    actor.coroutine = _abandon(stage, actor, key)
    return actor


async def _abandon(stage: Stage, actor: Actor, key: RunKey) -> None:
    workflows = stage.conductor_for(actor.handle).workflows
    await abandon_run(stage.lakefs_for(actor.handle), workflows, stage.repository_id, key)
