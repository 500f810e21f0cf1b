"""Both sides of the lakeFS machine, and what people do to a repository on each.

Knows how the servers are reached; which operations are done is the machine's.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import final

from tests import people
from tests.contract.real_lakefs import RealLakeFS
from tests.integration.fidelity_lakefs import GUARD, Operator, Side

from perago.adapters.memory.installations import RepositoryBuilder, lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.object_tree import Strategy
from perago.adapters.memory.system import WorkerHandle
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.ports.errors import RequestRefusedError, ServiceError


@contextmanager
def refusals() -> Generator[None]:
    """Make one kind of every refusal: the servers' words to people are not compared."""
    try:
        yield
    except ServiceError as refusal:
        raise RequestRefusedError(str(refusal)) from refusal


@final
class MemoryOperator(Operator):
    """People at the in-memory lakeFS."""

    def __init__(self, builder: RepositoryBuilder) -> None:
        self._builder = builder

    async def merge_by_hand(self, source: str, target: BranchName, strategy: str) -> CommitId:
        """Merge."""
        with refusals():
            return people.merge(
                self._builder, source, target, strategy=Strategy(strategy or Strategy.NONE)
            )

    async def revert(self, ref: str, branch: BranchName, parent: int) -> None:
        """Take back."""
        with refusals():
            people.revert(self._builder, ref, branch, parent=parent)

    async def cherry_pick(self, ref: str, branch: BranchName, parent: int) -> CommitId:
        """Repeat."""
        with refusals():
            return people.cherry_pick(self._builder, ref, branch, parent=parent)


@final
class ServerOperator(Operator):
    """People at a real lakeFS."""

    def __init__(self, harness: RealLakeFS, repository: RepositoryId) -> None:
        self._harness = harness
        self._repository = repository

    async def merge_by_hand(self, source: str, target: BranchName, strategy: str) -> CommitId:
        """Merge."""
        path = f"/repositories/{self._repository}/refs/{source}/merge/{target}"
        body = {"message": "merge", "strategy": strategy}
        return CommitId(json.loads(await self._harness.tell("POST", path, body))["reference"])

    async def revert(self, ref: str, branch: BranchName, parent: int) -> None:
        """Take back."""
        body = {"ref": ref, "parent_number": parent}
        await self._harness.tell("POST", self._path(branch, "revert"), body)

    async def cherry_pick(self, ref: str, branch: BranchName, parent: int) -> CommitId:
        """Repeat."""
        body = {"ref": ref, **({"parent_number": parent} if parent else {})}
        answer = await self._harness.tell("POST", self._path(branch, "cherry-pick"), body)
        return CommitId(json.loads(answer)["id"])

    def _path(self, branch: BranchName, verb: str) -> str:
        return f"/repositories/{self._repository}/branches/{branch}/{verb}"


@dataclass
class LakeFSSides:
    """Makes both sides of one example: a repository on each server, with its protection."""

    harness: RealLakeFS
    directory: Path

    def __post_init__(self) -> None:
        self._memory = MemoryLakeFS()
        self._numbers = count(1)

    async def __call__(self) -> tuple[Side, Side]:
        """A new repository on each."""
        builder = RepositoryBuilder(self._memory, f"repository-{next(self._numbers)}")
        builder.protect(GUARD)
        fake = Side(
            lakefs_installation(self._memory, WorkerHandle()),
            builder.id,
            MemoryOperator(builder),
            self.directory / "fake",
        )
        repository = await self.harness.create_repository()
        # Before anything is asked of it: the server keeps the rules it has seen for some seconds.
        settings = f"/repositories/{repository}/settings/branch_protection"
        await self.harness.tell("PUT", settings, [{"pattern": GUARD}])
        real = Side(
            self.harness.installation(),
            repository,
            ServerOperator(self.harness, repository),
            self.directory / "real",
        )
        return fake, real
