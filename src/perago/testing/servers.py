"""What an environment stands on: lakeFS, Conductor and time, in memory or real.

Everything the kit does that differs between the two is a verb of `Servers`. `MemoryServers` moves
its virtual clock when nothing else can happen; `remote_servers` has the real ones. `Repository` is
what a test sets up and looks at; it looks through the ports, which is the same for both.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, final

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.installations import (
    RepositoryBuilder,
    conductor_installation,
    lakefs_installation,
)
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.lakefs_ports import MemoryTransport
from perago.adapters.memory.system import (
    SeededIdentities,
    SequentialConcurrency,
    VirtualClock,
    WorkerHandle,
)
from perago.adapters.memory.workflow_decider import next_due_ms
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.adapters.workspace.staging import Staging
from perago.app.attempt.context import AttemptPorts, LakeFS
from perago.app.fence.trust import FenceTools, FenceTrust
from perago.domain.attempt import AttemptRecord
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId, TagName
from perago.domain.names import is_private_branch
from perago.domain.paths import ACTIONS_PREFIX
from perago.ports.asking import pages
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.objects import ObjectTransport
from perago.ports.system import Clock, Concurrency, Identities
from perago.ports.task_body import TaskBody
from perago.ports.workspace import Progress
from perago.testing.faults import Call, Fault

MAIN = "main"
MILLISECONDS = 1000
HISTORY_MAX = 1000  # commits: a test's own repository has some dozens
Send = Callable[[], Awaitable[Any]]


class RealMeans(Protocol):
    """Stands outside the worker and breaks one call for real."""

    def can(self, fault: Fault, call: Call) -> bool:
        """Whether the fault is brought about by these means; else it happens at the port."""
        ...

    async def carry(self, fault: Fault, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Send while the fault is in force; the answer, or what the adapter makes of none."""
        ...


class Servers(Protocol):
    """One lakeFS and one Conductor, without faults, and the time that passes there."""

    lakefs: LakeFSInstallation
    conductor: ConductorInstallation
    clock: Clock
    domain: str | None  # the Conductor domain that keeps this environment's tasks to itself
    means: RealMeans | None  # what injects real faults, if anything does

    def identities(self, number: int) -> Identities:
        """A source of identities for one worker."""
        ...

    def concurrency(self) -> Concurrency:
        """How one worker does things side by side."""
        ...

    def unique(self, name: str) -> str:
        """A name that no other environment uses on the same servers."""
        ...

    def task_definition(self, definition: Mapping[str, object]) -> dict[str, object]:
        """A TaskDef with the waits that suit these servers: shorter ones where seconds are real."""
        ...

    async def create_repository(self, name: str) -> RepositoryId:
        """A new repository with an empty branch `main`."""
        ...

    async def commit(
        self,
        repository: RepositoryId,
        branch: BranchName,
        files: Mapping[str, bytes | None],
        message: str,
    ) -> CommitId:
        """Write files (None deletes one) and commit them, as any writer with keys could."""
        ...

    async def give_way(self) -> None:
        """Let every worker that can run go on for a moment."""
        ...

    async def rest(self, workflow_ids: Sequence[str]) -> bool:
        """Let time pass to the next thing that is due; False when nothing ever will be."""
        ...

    async def let_lease_expire(self, record: AttemptRecord) -> None:
        """Let time pass until Conductor has given an attempt up."""
        ...

    def worker_root(self, number: int) -> Path:
        """Where one worker keeps its attempt directories."""
        ...

    def close(self) -> None:
        """Leave nothing behind on this machine."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker has beside lakeFS, Conductor and its task functions.

    `root` is where its attempt directories are. Without a transport bytes move by the calls of
    `objects`, where a fault can happen to each.
    """

    clock: Clock
    root: Path
    identities: Identities = field(default_factory=SeededIdentities)
    concurrency: Concurrency = field(default_factory=SequentialConcurrency)
    transport: ObjectTransport | None = None


def fence_trust(
    lakefs: LakeFSInstallation, identities: Identities, concurrency: Concurrency, clock: Clock
) -> FenceTrust:
    """What one process knows of the fences of a lakeFS."""
    return FenceTrust(FenceTools(lakefs, identities), concurrency, clock)


def attempt_ports(
    lakefs: LakeFSInstallation,
    conductor: ConductorInstallation,
    around: Surroundings,
    body: TaskBody,
    progress: Progress,
    trust: FenceTrust | None = None,
) -> AttemptPorts:
    """The ports of one worker; without a given trust it tries the fences by itself."""
    clock, identities, concurrency = around.clock, around.identities, around.concurrency
    if trust is None:
        trust = fence_trust(lakefs, identities, concurrency, clock)
    transport = around.transport or MemoryTransport(lakefs.objects, concurrency)
    pipeline = LocalWorkspacePipeline(lakefs.objects, lakefs.commits, concurrency, transport)
    uploads = Staging(lakefs.objects, lakefs.commits, transport, concurrency)
    return AttemptPorts(
        lakefs=LakeFS.of(lakefs, pipeline, trust, uploads),
        queue=conductor.queue,
        body=body,
        directories=LocalAttemptDirectories(around.root, clock, concurrency),
        clock=clock,
        identities=identities,
        concurrency=concurrency,
        progress=progress,
    )


@final
@dataclass(frozen=True, slots=True)
class Repository:
    """Set-up and inspection past every worker; no fault is injected here."""

    servers: Servers
    id: RepositoryId
    name: str
    commits_of_others: list[tuple[str, CommitId]] = field(
        default_factory=list[tuple[str, CommitId]]
    )

    async def commit(
        self,
        files: Mapping[str, bytes | str | None],
        branch: str = MAIN,
        *,
        message: str = "by a writer without Perago",
    ) -> CommitId:
        """Write files (None deletes one) and commit them."""
        content = {
            path: data.encode() if isinstance(data, str) else data for path, data in files.items()
        }
        commit = await self.servers.commit(self.id, BranchName(branch), content, message)
        self.commits_of_others.append((branch, commit))
        return commit

    async def create_branch(self, name: str, source: str = MAIN) -> None:
        """Create a branch at the head of another, or at a commit."""
        start = (await self.head(source)).commit
        branches, hidden = self.servers.lakefs.branches, is_private_branch(name)
        await branches.create(self.id, BranchName(name), start, hidden=hidden)

    async def files(self, ref: str = MAIN) -> dict[str, bytes]:
        """Every object of a branch or commit, without lakeFS's own actions."""
        objects = self.servers.lakefs.objects
        listed = pages(lambda after: objects.list_page(self.id, ref, prefix="", after=after))
        paths = [entry.path async for page in listed for entry in page.items]
        return {
            path: await objects.read(self.id, ref, path)
            for path in paths
            if not path.startswith(ACTIONS_PREFIX)
        }

    async def text(self, path: str, ref: str = MAIN) -> str:
        """One object as text."""
        files = await self.files(ref)
        assert path in files, f"{self.name}@{ref} has no {path}; it has {sorted(files)}"
        return files[path].decode()

    async def head(self, branch: str = MAIN) -> CommitRecord:
        """The head of a branch."""
        return await self.servers.lakefs.commits.read(self.id, branch)

    async def history(self, ref: str = MAIN) -> Sequence[CommitRecord]:
        """A commit and its first parents, newest first."""
        commits = self.servers.lakefs.commits
        walk = await commits.first_parents(self.id, ref, None, commits_max=HISTORY_MAX)
        assert not walk.truncated, f"the kit reads histories of up to {HISTORY_MAX} commits"
        return walk.commits

    async def branches(self) -> Mapping[BranchName, CommitId]:
        """Every branch with its head."""
        list_page = self.servers.lakefs.branches.list_page
        listed = pages(partial(list_page, self.id, "", show_hidden=True))
        return {name: head async for page in listed for name, head in page.items}

    async def tags(self) -> Mapping[TagName, CommitId]:
        """Every tag with its commit."""
        listed = pages(partial(self.servers.lakefs.tags.list_page, self.id, ""))
        return {tag.name: tag.commit async for page in listed for tag in page.items}

    async def workspace(self, branch: str = MAIN, ref: str | None = None) -> dict[str, object]:
        """The workspace input of a task: this repository and branch, at a commit or the head."""
        commit = (await self.head(ref or branch)).commit
        workspace: dict[str, object] = {"repository": self.id, "branch": branch}
        return {**workspace, "refType": "commit", "ref": commit}


@final
class MemoryServers(Servers):
    """One in-memory lakeFS and Conductor on one virtual clock; every environment has its own."""

    def __init__(self, *, seed: int = 0, root: Path | None = None) -> None:
        self.virtual_clock = VirtualClock()
        self.clock: Clock = self.virtual_clock
        self.domain: str | None = None
        self.means: RealMeans | None = None
        self.memory_lakefs = MemoryLakeFS(self.clock)
        self.memory_conductor = MemoryConductor(self.clock, seed=seed)
        self.lakefs = lakefs_installation(self.memory_lakefs, WorkerHandle())
        self.conductor = conductor_installation(self.memory_conductor, WorkerHandle())
        self.builders: dict[RepositoryId, RepositoryBuilder] = {}
        self._seed = seed
        self._given_root = root
        self._root: Path | None = None

    def identities(self, number: int) -> SeededIdentities:
        """The same seed, the same names."""
        seed = self._seed * 1000 + number
        return SeededIdentities(seed, now_ms=lambda: self.virtual_clock.epoch_ms)

    def concurrency(self) -> SequentialConcurrency:
        return SequentialConcurrency()

    def unique(self, name: str) -> str:
        """The name as it is, because these servers belong to one environment."""
        return name

    def task_definition(self, definition: Mapping[str, object]) -> dict[str, object]:
        """The definition as it is, because virtual time passes at once."""
        return dict(definition)

    async def create_repository(self, name: str) -> RepositoryId:
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
        return self.builders[repository].commit(files, branch, message=message)

    async def give_way(self) -> None:
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
        """Below the root that was given, or a directory that appears with the first worker."""
        if self._given_root is not None:
            return self._given_root / str(number)
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="perago-env-", dir=memory_disk()))
        return self._root / str(number)

    def close(self) -> None:
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None


def memory_disk() -> str | None:
    """A file system in memory where there is one: attempts of a test need no lasting disk."""
    shared = Path("/dev/shm")  # noqa: S108 - a private directory is made in it
    return str(shared) if shared.is_dir() else None
