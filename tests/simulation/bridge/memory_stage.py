"""The servers in memory as both sides of the bridge use them: each call of a port is one stop."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Protocol, final

from tests.simulation.actors import Stage
from tests.simulation.bridge.held import Hold, at_once
from tests.simulation.mix import Foreign, Mix, Verb
from tests.simulation.moves import operate
from tests.simulation.others import commit_by_others
from tests.simulation.scene import Scene, open_scene
from tests.simulation.steering import SteeredHandle

from perago.adapters.memory.installations import conductor_installation, lakefs_installation
from perago.adapters.memory.system import WorkerHandle
from perago.domain.attempt import AttemptStatus
from perago.domain.lakefs import CommitId
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.testing.fault_injector import faulty_installation


class HeldStage(Stage, Protocol):
    """Servers on which a transcript is replayed; the verbs are those of everybody else."""

    @property
    def input(self) -> CommitId:
        """The commit that the workflow starts from."""
        ...

    @property
    def lakefs_ports(self) -> LakeFSInstallation:
        """The lakeFS, for looking at it."""
        ...

    @property
    def conductor_ports(self) -> ConductorInstallation:
        """The Conductor, for looking at it."""
        ...

    async def keep_leases(self) -> None:
        """Keep every row alive whose lease does not expire in the transcript."""
        ...

    async def waits(self) -> bool:
        """Wait a moment for a server that does something by itself; False where none does."""
        ...

    async def let_time_pass(self, moment: int, expired: Sequence[str]) -> None:
        """Move the clock; the leases of these rows expire, and no others."""
        ...

    async def operate(self, verb: Verb) -> bool:
        """What an operator does; False where it is refused."""
        ...

    async def requeue(self) -> None:
        """Hand out every open row again."""
        ...

    async def commit(self, kind: Foreign, count: int, source: str) -> CommitId | None:
        """What another tool does to the target branch; None where it is refused."""
        ...


@final
class MemoryStage(Scene):
    """A scene whose every call of a port is one stop, named and with what it was given."""

    def lakefs_for(self, handle: SteeredHandle) -> LakeFSInstallation:
        """The ports of lakeFS of one process."""
        return faulty_installation(self.lakefs_ports, Hold(handle, lambda send: at_once(send())))

    def conductor_for(self, handle: SteeredHandle) -> ConductorInstallation:
        """The ports of Conductor of one process."""
        return faulty_installation(self.conductor_ports, Hold(handle, lambda send: at_once(send())))

    @property
    def lakefs_ports(self) -> LakeFSInstallation:
        """The lakeFS, for looking at it."""
        return lakefs_installation(self.lakefs, WorkerHandle())

    @property
    def conductor_ports(self) -> ConductorInstallation:
        """The Conductor, for looking at it."""
        return conductor_installation(self.conductor, WorkerHandle())

    async def keep_leases(self) -> None:
        """Time stands still."""

    async def waits(self) -> bool:
        """Nothing happens by itself here."""
        return False

    async def let_time_pass(self, moment: int, expired: Sequence[str]) -> None:
        """Move the clock; every process beats but those of the expired rows."""
        self.clock.move_to(moment)
        for row in self.conductor.state.runs[self.workflow].open_rows():
            if row.status is AttemptStatus.IN_PROGRESS and row.task_id not in expired:
                row.update_time = self.conductor.state.now_ms
        self.conductor.sweep()

    async def operate(self, verb: Verb) -> bool:
        """What an operator does."""
        rows = self.conductor.state.runs[self.workflow].attempts_of(self.mix.rerun_from)
        return operate(self, verb, rows[-1].task_id)

    async def requeue(self) -> None:
        """Hand out every open row again."""
        for name in self.tasks:
            self.conductor.requeue(name)

    async def commit(self, kind: Foreign, count: int, source: str) -> CommitId | None:
        """What another tool does."""
        return commit_by_others(self.repository, kind, count, source)


def open_memory_stage(mix: Mix) -> MemoryStage:
    """New servers in memory."""
    scene = open_scene(mix)
    return MemoryStage(*(getattr(scene, field.name) for field in fields(scene)))
