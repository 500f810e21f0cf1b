"""What an environment stands on: lakeFS, Conductor and time, in memory or real.

Everything the kit does that differs between the two is a verb here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from perago.app.authoring.task_definition import TaskDefinition
from perago.domain.attempt import AttemptRecord
from perago.domain.references import BranchName, CommitId, CommitRecord, RepositoryId, TagName
from perago.ports.clock import Clock
from perago.ports.concurrency import Concurrency
from perago.ports.identities import Identities
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.task_body import TaskBody
from perago.testing.attempt_story import StoryProgress
from perago.testing.real_means import RealMeans


class Ground(Protocol):
    """One lakeFS and one Conductor, without faults, and the time that passes there."""

    lakefs: LakeFSInstallation
    conductor: ConductorInstallation
    clock: Clock
    domain: str | None  # the Conductor domain that keeps this environment's tasks to itself
    means: RealMeans | None  # what strikes these workers for real, if anything does

    def identities(self, number: int) -> Identities:
        """A source of identities for one worker."""
        ...

    def concurrency(self) -> Concurrency:
        """How one worker does things side by side."""
        ...

    def body(self, tasks: Mapping[str, TaskDefinition], progress: StoryProgress) -> TaskBody:
        """What runs task functions."""
        ...

    def unique(self, name: str) -> str:
        """A name that no other environment uses on the same servers."""
        ...

    def task_definition(self, definition: Mapping[str, object]) -> dict[str, object]:
        """A TaskDef as this ground can afford it: real seconds are dear."""
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
        """Write files (None deletes one) and commit them, as anybody could."""
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
        """Let everybody who can run go on for a moment."""
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
