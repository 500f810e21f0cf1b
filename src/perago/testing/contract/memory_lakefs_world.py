"""A lakeFS whose state is in memory, as the contract suites see it.

Set-up goes past the ports under test: whatever stands before the memory is not asked. Must not
know any law.
"""

from collections.abc import Mapping
from itertools import count
from typing import final

from perago.adapters.memory.installations import lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.repository_builder import RepositoryBuilder
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.references import NO_METADATA, BranchName, CommitId, RepositoryId
from perago.ports.branches import Branches
from perago.ports.commits import Commits
from perago.ports.installations import LakeFSInstallation
from perago.ports.objects import DEFAULT_CONTENT_TYPE, Objects
from perago.ports.repositories import Repositories
from perago.ports.tags import Tags
from perago.testing.contract.lakefs_world import LakeFSWorld


@final
class MemoryLakeFSWorld(LakeFSWorld):
    """Ports over one memory, and set-up in the same memory."""

    def __init__(self, lakefs: MemoryLakeFS, ports: LakeFSInstallation) -> None:
        self._lakefs = lakefs
        self._ports = ports
        self._builders: dict[RepositoryId, RepositoryBuilder] = {}
        self._numbers = count(1)

    @property
    def branches(self) -> Branches:
        """The branches under test."""
        return self._ports.branches

    @property
    def commits(self) -> Commits:
        """The commits under test."""
        return self._ports.commits

    @property
    def tags(self) -> Tags:
        """The tags under test."""
        return self._ports.tags

    @property
    def objects(self) -> Objects:
        """The objects under test."""
        return self._ports.objects

    @property
    def repositories(self) -> Repositories:
        """The repositories under test."""
        return self._ports.repositories

    async def create_repository(self, *, read_only: bool = False) -> RepositoryId:
        """Create one."""
        builder = RepositoryBuilder(self._lakefs, self.unique_name("repository"))
        if read_only:
            builder.make_read_only()
        self._builders[builder.id] = builder
        return builder.id

    async def write(
        self,
        repository: RepositoryId,
        branch: BranchName,
        path: str,
        content: bytes,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> None:
        """Write one object."""
        self._builders[repository].write(
            path, content, branch, content_type=content_type, metadata=metadata
        )

    async def commit_files(
        self,
        repository: RepositoryId,
        branch: BranchName,
        files: Mapping[str, bytes | None],
        *,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> CommitId:
        """Write, delete and commit."""
        return self._builders[repository].commit(files, branch, metadata=metadata)

    async def commit_unchecked(
        self, repository: RepositoryId, branch: BranchName, files: Mapping[str, bytes]
    ) -> CommitId:
        """Commit without hooks."""
        return self._builders[repository].commit(files, branch, unchecked=True)

    async def protect(self, repository: RepositoryId, pattern: str) -> None:
        """Protect, in force at once."""
        self._builders[repository].protect(pattern)

    async def merge_keeping_both_parents(
        self, repository: RepositoryId, source: str, target: BranchName
    ) -> CommitId:
        """Merge as a human does."""
        return self._builders[repository].merge(source, target)

    def unique_name(self, prefix: str) -> str:
        """The prefix and a number."""
        return f"{prefix}-{next(self._numbers)}"


def memory_lakefs_world() -> MemoryLakeFSWorld:
    """The in-memory adapters over an installation of their own."""
    lakefs = MemoryLakeFS()
    return MemoryLakeFSWorld(lakefs, lakefs_installation(lakefs, WorkerHandle()))
