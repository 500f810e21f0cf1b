"""Servers in memory below an environment, and task bodies in the loop itself.

`MemoryServers` moves its virtual clock when nothing else can happen. `InlineBody` runs a body while
nothing runs beside it. It must not be used where two bodies run at once: output is the process's.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import (
    RepositoryBuilder,
    conductor_installation,
    lakefs_installation,
)
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.system import SeededIdentities, SequentialConcurrency, VirtualClock
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.adapters.memory.workflow_verbs import next_due_ms
from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import AttemptRecord
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
    TagName,
)
from perago.ports.system import Clock
from perago.ports.task_body import BodyCall, BodyOutcome, TaskBody
from perago.testing.attempt_story import EventKind, StoryListener
from perago.testing.fault_injector import RealMeans
from perago.testing.servers import Servers
from perago.testing.trial.captured_body import run_captured


@final
class InlineBody(TaskBody):
    """Runs the functions of the given tasks."""

    def __init__(self, tasks: Mapping[str, TaskDefinition], story: StoryListener) -> None:
        self._tasks = tasks
        self._story = story

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call to its end and keep what it printed and logged."""
        outcome, lines = run_captured(self._tasks[call.task_name], call)
        for line in lines:
            self._story.note(EventKind.OUTPUT, line)
        return outcome


MILLISECONDS = 1000


@final
class MemoryServers(Servers):
    """One in-memory lakeFS and Conductor on one virtual clock; every environment has its own."""

    def __init__(self, *, seed: int = 0) -> None:
        self.virtual_clock = VirtualClock()
        self.clock: Clock = self.virtual_clock
        self.domain: str | None = None
        self.means: RealMeans | None = None
        self.memory_lakefs = MemoryLakeFS(now=lambda: self.virtual_clock.epoch_ms // MILLISECONDS)
        self.memory_conductor = MemoryConductor(self.clock, seed=seed)
        self.lakefs = lakefs_installation(self.memory_lakefs, WorkerHandle())
        self.conductor = conductor_installation(self.memory_conductor, WorkerHandle())
        self.builders: dict[RepositoryId, RepositoryBuilder] = {}
        self._seed = seed
        self._root: Path | None = None

    def identities(self, number: int) -> SeededIdentities:
        """The same seed, the same names."""
        seed = self._seed * 1000 + number
        return SeededIdentities(seed, now_ms=lambda: self.virtual_clock.epoch_ms)

    def concurrency(self) -> SequentialConcurrency:
        """One thing after the other."""
        return SequentialConcurrency()

    def body(self, tasks: Mapping[str, TaskDefinition], story: StoryListener) -> TaskBody:
        """Task functions run in the event loop."""
        return InlineBody(tasks, story)

    def unique(self, name: str) -> str:
        """The name as it is, because these servers belong to one environment."""
        return name

    def task_definition(self, definition: Mapping[str, object]) -> dict[str, object]:
        """The definition as it is, because virtual time passes at once."""
        return dict(definition)

    async def create_repository(self, name: str) -> RepositoryId:
        """Create it at once."""
        builder = RepositoryBuilder(self.memory_lakefs, name)
        self.builders[builder.id] = builder
        return builder.id

    async def commit(
        self,
        repository: RepositoryId,
        branch: BranchName,
        files: Mapping[str, bytes | None],
        message: str,
    ) -> CommitId:
        """Commit at once."""
        return self.builders[repository].commit(files, branch, message=message)

    async def create_branch(
        self, repository: RepositoryId, branch: BranchName, source: CommitId
    ) -> None:
        """Create it at once."""
        self.builders[repository].branch(branch, source)

    async def files(self, repository: RepositoryId, ref: str) -> dict[str, bytes]:
        """Read everything."""
        return self.builders[repository].files(ref)

    async def history(self, repository: RepositoryId, ref: str) -> Sequence[CommitRecord]:
        """First parents down to the root."""
        state = self.memory_lakefs.repository(repository)
        commit = state.commit_of(ref)
        return [found.record for found in state.graph.first_parents(commit.id)]

    async def branches(self, repository: RepositoryId) -> Mapping[BranchName, CommitId]:
        """Names and heads."""
        state = self.memory_lakefs.repository(repository)
        return {name: branch.head.id for name, branch in state.branches.items()}

    async def tags(self, repository: RepositoryId) -> Mapping[TagName, CommitId]:
        """Names and commits."""
        return self.builders[repository].tags()

    async def give_way(self) -> None:
        """Let the event loop run the other tasks once."""
        await asyncio.sleep(0)

    async def rest(self, workflow_ids: Sequence[str]) -> bool:
        """Move the clock to the next sleeper, queued row or time-out."""
        del workflow_ids
        state = self.memory_conductor.state
        due = next_due_ms(state)
        waits = [] if due is None else [(due - state.now_ms) / MILLISECONDS]
        sleeper = self.virtual_clock.seconds_to_next()
        if sleeper is not None:
            waits.append(sleeper)
        if not waits:
            return False
        self.virtual_clock.advance(min(waits))
        self.memory_conductor.sweep()
        return True

    async def let_lease_expire(self, record: AttemptRecord) -> None:
        """Move the clock past the response time-out and let the server notice."""
        self.virtual_clock.advance(record.response_timeout_seconds + 1)
        self.memory_conductor.sweep()

    def worker_root(self, number: int) -> Path:
        """A directory that appears with the first worker."""
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="perago-env-", dir=memory_disk()))
        return self._root / str(number)

    def close(self) -> None:
        """Remove the directories."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None


def memory_disk() -> str | None:
    """A file system in memory where there is one: attempts of a test need no lasting disk."""
    shared = Path("/dev/shm")  # noqa: S108 - a private directory is made in it
    return str(shared) if shared.is_dir() else None
