"""What an environment stands on: lakeFS, Conductor and time, in memory or real.

Everything the kit does that differs between the two is a verb here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, final

from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import AttemptRecord
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
    TagName,
)
from perago.domain.paths import ACTIONS_PREFIX
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.system import Clock, Concurrency, Identities
from perago.ports.task_body import TaskBody
from perago.testing.attempt_story import StoryListener
from perago.testing.fault_injector import RealMeans


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

    def body(self, tasks: Mapping[str, TaskDefinition], story: StoryListener) -> TaskBody:
        """What runs task functions."""
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

    async def create_branch(
        self, repository: RepositoryId, branch: BranchName, source: CommitId
    ) -> None:
        """Create a branch."""
        ...

    async def files(self, repository: RepositoryId, ref: str) -> dict[str, bytes]:
        """Every object a reference shows."""
        ...

    async def history(self, repository: RepositoryId, ref: str) -> Sequence[CommitRecord]:
        """A commit and its first parents, down to the root."""
        ...

    async def branches(self, repository: RepositoryId) -> Mapping[BranchName, CommitId]:
        """Every branch with its head."""
        ...

    async def tags(self, repository: RepositoryId) -> Mapping[TagName, CommitId]:
        """Every tag with its commit."""
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


MAIN = "main"


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
        start = (await self.history(source))[0].commit
        await self.servers.create_branch(self.id, BranchName(name), start)

    async def files(self, ref: str = MAIN) -> dict[str, bytes]:
        """Every object of a branch or commit, without lakeFS's own actions."""
        found = await self.servers.files(self.id, ref)
        return {path: data for path, data in found.items() if not path.startswith(ACTIONS_PREFIX)}

    async def text(self, path: str, ref: str = MAIN) -> str:
        """One object as text."""
        files = await self.files(ref)
        assert path in files, f"{self.name}@{ref} has no {path}; it has {sorted(files)}"
        return files[path].decode()

    async def head(self, branch: str = MAIN) -> CommitRecord:
        """The head of a branch."""
        return (await self.history(branch))[0]

    async def history(self, ref: str = MAIN) -> Sequence[CommitRecord]:
        """A commit and its first parents, newest first."""
        return await self.servers.history(self.id, ref)

    async def branches(self) -> Mapping[BranchName, CommitId]:
        """Every branch with its head."""
        return await self.servers.branches(self.id)

    async def tags(self) -> Mapping[TagName, CommitId]:
        """Every tag with its commit."""
        return await self.servers.tags(self.id)

    async def workspace(self, branch: str = MAIN, ref: str | None = None) -> dict[str, object]:
        """The workspace input of a task: this repository and branch, at a commit or the head."""
        commit = (await self.history(ref or branch))[0].commit
        workspace: dict[str, object] = {"repository": self.id, "branch": branch}
        return {**workspace, "refType": "commit", "ref": commit}
