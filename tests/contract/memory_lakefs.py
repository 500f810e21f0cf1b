"""The in-memory lakeFS as the contract suites see it.

Set-up goes past the worker's handle. Must not know any law.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import final

import pytest
from tests.contract.lakefs_world import LakeFSWorld

from perago.adapters.memory.branches import MemoryBranches
from perago.adapters.memory.commits import MemoryCommits
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.objects import MemoryObjects
from perago.adapters.memory.repositories import MemoryRepositories
from perago.adapters.memory.repository_builder import RepositoryBuilder
from perago.adapters.memory.tags import MemoryTags
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.references import NO_METADATA, BranchName, CommitId, RepositoryId
from perago.ports.objects import DEFAULT_CONTENT_TYPE


@final
class MemoryLakeFSWorld(LakeFSWorld):
    """The adapters under test over one installation, and set-up in the same memory."""

    def __init__(self) -> None:
        handle = WorkerHandle()
        self._lakefs = MemoryLakeFS()
        self._builders: dict[RepositoryId, RepositoryBuilder] = {}
        self._numbers = count(1)
        self._branches = MemoryBranches(self._lakefs, handle)
        self._commits = MemoryCommits(self._lakefs, handle)
        self._tags = MemoryTags(self._lakefs, handle)
        self._objects = MemoryObjects(self._lakefs, handle)
        self._repositories = MemoryRepositories(self._lakefs, handle)

    @property
    def branches(self) -> MemoryBranches:
        """The branches under test."""
        return self._branches

    @property
    def commits(self) -> MemoryCommits:
        """The commits under test."""
        return self._commits

    @property
    def tags(self) -> MemoryTags:
        """The tags under test."""
        return self._tags

    @property
    def objects(self) -> MemoryObjects:
        """The objects under test."""
        return self._objects

    @property
    def repositories(self) -> MemoryRepositories:
        """The repositories under test."""
        return self._repositories

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


@asynccontextmanager
async def open_memory_lakefs(_request: pytest.FixtureRequest) -> AsyncGenerator[MemoryLakeFSWorld]:
    """Open an installation of its own."""
    yield MemoryLakeFSWorld()
