"""What a lakeFS contract test may touch: the five ports, and set-up that no port offers.

Says nothing of which lakeFS answers; the tests of an adapter implement it.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Protocol, Self, final

import pytest

from perago.adapters.memory.installations import RepositoryBuilder
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.lakefs_ports import MemoryTransport
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import NO_METADATA, BranchName, CommitId, CommitRecord, RepositoryId
from perago.domain.outcome import MergeAnswer, Merged
from perago.domain.paths import FENCE_PATH
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import Branches, CommitRequest, Commits, MergeRequest, Repositories, Tags
from perago.ports.objects import DEFAULT_CONTENT_TYPE, Objects, ObjectUpload
from perago.testing.fault_injector import losing_answers

MAIN = BranchName("main")
WALK_PAGE = 50
"""Commits a walk may read at once here, so that a law about pages needs no thousand commits."""


class LakeFSUnderTest(Protocol):
    """One lakeFS with its actions switched on: the five ports of one worker, and set-up verbs.

    Set-up acts at once: when a verb returns, every later call of a port sees its effect. `write`
    and `commit_files` work by the ports, so that only what no port offers is left to an adapter.
    """

    branches: Branches
    commits: Commits
    tags: Tags
    objects: Objects
    repositories: Repositories

    async def create_repository(self, *, read_only: bool = False) -> RepositoryId:
        """A new repository of a unique name; its default branch is `main`."""
        ...

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
        """Write one object and leave it uncommitted."""
        with NamedTemporaryFile() as source:
            source.write(content)
            source.flush()
            upload = ObjectUpload(path, Path(source.name), content_type, metadata)
            await self.objects.upload(repository, branch, upload)

    async def commit_files(
        self,
        repository: RepositoryId,
        branch: BranchName,
        files: Mapping[str, bytes | None],
        *,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> CommitId:
        """Write files (None deletes one) and commit exactly them on the branch."""
        for path, content in files.items():
            if content is not None:
                await self.write(repository, branch, path, content)
        if gone := [path for path, content in files.items() if content is None]:
            await self.objects.delete_many(repository, branch, gone)
        request = CommitRequest(repository, branch, "set up", metadata, allow_empty=not files)
        return await self.commits.commit(request)

    async def commit_unchecked(
        self, repository: RepositoryId, branch: BranchName, files: Mapping[str, bytes]
    ) -> CommitId:
        """Commit action files that the server would refuse to commit, because they are broken.

        A real server loads the action files of the branch before it commits. It keeps the list of
        them for some seconds, so that an (empty) commit, then the files, then a second commit at
        once gets them in.
        """
        ...

    async def protect(self, repository: RepositoryId, pattern: str) -> None:
        """Protect branches by name pattern; returns when the server enforces it."""
        ...

    def losing_answers(self) -> AbstractAsyncContextManager[LakeFSInstallation]:
        """Ports of another worker on the same lakeFS, who never gets an answer.

        Its requests arrive and take effect. A `CuttingProxy` before a server without TLS does it;
        an adapter that can sends a read through it first, so that law L0 meets a kept connection.
        """
        ...

    def unique_name(self, prefix: str) -> str:
        """A name that no other test uses, valid for branches and tags."""
        ...


@final
class MemoryLakeFSUnderTest(LakeFSUnderTest):
    """Ports over one memory, and set-up in the same memory."""

    def __init__(self, lakefs: MemoryLakeFS, ports: LakeFSInstallation) -> None:
        self._lakefs, self._ports = lakefs, ports
        self.branches, self.commits, self.tags = ports.branches, ports.commits, ports.tags
        self.objects, self.repositories = ports.objects, ports.repositories
        self._builders: dict[RepositoryId, RepositoryBuilder] = {}
        self._numbers = count(1)

    async def create_repository(self, *, read_only: bool = False) -> RepositoryId:
        builder = RepositoryBuilder(self._lakefs, self.unique_name("repository"))
        if read_only:
            builder.make_read_only()
        self._builders[builder.id] = builder
        return builder.id

    async def commit_unchecked(
        self, repository: RepositoryId, branch: BranchName, files: Mapping[str, bytes]
    ) -> CommitId:
        return self._builders[repository].commit(files, branch, unchecked=True)

    async def protect(self, repository: RepositoryId, pattern: str) -> None:
        """Protect, in force at once."""
        self._builders[repository].protect(pattern)

    @asynccontextmanager
    async def losing_answers(self) -> AsyncGenerator[LakeFSInstallation]:
        """The same ports, for a worker for whom every loss is planned.

        A transport has no calls to lose, so bytes move by the calls of `objects`.
        """
        losing = losing_answers(self._ports)
        yield replace(losing, transport=partial(MemoryTransport, losing.objects))

    def unique_name(self, prefix: str) -> str:
        return f"{prefix}-{next(self._numbers)}"


STAGING = BranchName("staging")
NOWHERE = BranchName("nowhere")
UNKNOWN = CommitId("f" * 64)  # the form of a commit id, and the id of no commit
BROKEN_FILE = {"_lakefs_actions/broken.yaml": b"{not yaml"}
REFUSING_FILE = b"""\
name: no entry
on:
  pre-merge:
hooks:
  - id: no_entry
    type: lua
    properties:
      script: |
        error("closed on Sundays")
"""


class Scene:
    """A repository whose main has one file, and a staging branch that adds another."""

    def __init__(
        self,
        under_test: LakeFSUnderTest,
        repository: RepositoryId,
        input_ref: CommitId,
        staged: CommitId,
    ) -> None:
        self.under_test = under_test
        self.branches, self.commits = under_test.branches, under_test.commits
        self.tags, self.objects = under_test.tags, under_test.objects
        self.repository, self.input_ref, self.staged = repository, input_ref, staged

    @classmethod
    async def build(cls, under_test: LakeFSUnderTest, main: Mapping[str, bytes | None]) -> Self:
        """A new one, with more files on main."""
        repository = await under_test.create_repository()
        input_ref = await under_test.commit_files(repository, MAIN, {"kept": b"kept", **main})
        await under_test.branches.create(repository, STAGING, input_ref)
        staged = await under_test.commit_files(repository, STAGING, {"added": b"added"})
        return cls(under_test, repository, input_ref, staged)

    @property
    def request(self) -> MergeRequest:
        """The plain merge of the staged commit."""
        return MergeRequest(self.repository, self.staged, MAIN, "publish")

    def expecting(self, head: CommitId) -> MergeRequest:
        """The merge that expects a head."""
        return replace(self.request, metadata={EXPECTED_HEAD: head})

    async def merge(self, request: MergeRequest | None = None) -> MergeAnswer:
        return await self.branches.merge(request or self.request)

    async def merged(self, request: MergeRequest | None = None) -> CommitId:
        """Merge, which must succeed."""
        answer = await self.merge(request)
        assert isinstance(answer, Merged), answer
        return answer.commit

    async def create_branch(
        self, name: BranchName, source: CommitId, *, hidden: bool = False
    ) -> None:
        await self.branches.create(self.repository, name, source, hidden=hidden)

    async def record(self, branch: BranchName = MAIN) -> CommitRecord:
        """The head with all that it says."""
        return await self.branches.head(self.repository, branch)

    async def head(self, branch: BranchName = MAIN) -> CommitId:
        """The head's id."""
        return (await self.record(branch)).commit

    async def read(self, reference: str) -> CommitRecord:
        """A commit, by any name of it."""
        return await self.commits.read(self.repository, reference)

    async def paths(self, ref: str = MAIN) -> list[str]:
        """The paths a reference shows."""
        page = await self.objects.list_page(self.repository, ref, prefix="")
        return [entry.path for entry in page.items]

    async def commit(self, branch: BranchName, **files: bytes | None) -> CommitId:
        return await self.commit_files(files, branch)

    async def commit_files(
        self, files: Mapping[str, bytes | None], branch: BranchName = MAIN
    ) -> CommitId:
        """Write files (None deletes one) and commit them."""
        return await self.under_test.commit_files(self.repository, branch, files)


@pytest.fixture
async def scene(lakefs_under_test: LakeFSUnderTest) -> Scene:
    return await Scene.build(lakefs_under_test, {})


@pytest.fixture
async def fenced(lakefs_under_test: LakeFSUnderTest) -> Scene:
    return await Scene.build(lakefs_under_test, {FENCE_PATH: FENCE_FILE})
