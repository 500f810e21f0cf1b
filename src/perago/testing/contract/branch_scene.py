"""The repository that the suites of branches and merges play on."""

from dataclasses import dataclass, replace

import pytest

from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.outcome import (
    MergeAnswer,
    Merged,
)
from perago.domain.publication_fence import FENCE_FILE
from perago.domain.references import BranchName, CommitId, RepositoryId
from perago.domain.reserved_paths import FENCE_PATH
from perago.ports.branches import MergeRequest
from perago.testing.contract.lakefs_world import MAIN, LakeFSWorld

STAGING = BranchName("staging")
NOWHERE = BranchName("nowhere")
UNKNOWN = CommitId("f" * 64)
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


@dataclass(frozen=True, slots=True)
class Scene:
    """A repository whose main has one file, and a staging branch that adds another."""

    world: LakeFSWorld
    repository: RepositoryId
    input_ref: CommitId
    staged: CommitId

    @property
    def request(self) -> MergeRequest:
        """The plain merge of the staged commit."""
        return MergeRequest(self.repository, self.staged, MAIN, "publish")

    def expecting(self, head: CommitId) -> MergeRequest:
        """The merge that expects a head."""
        return replace(self.request, metadata={EXPECTED_HEAD: head})

    async def merge(self, request: MergeRequest | None = None) -> MergeAnswer:
        """Merge."""
        return await self.world.branches.merge(request or self.request)

    async def merged(self, request: MergeRequest | None = None) -> CommitId:
        """Merge, which must succeed."""
        answer = await self.merge(request)
        assert isinstance(answer, Merged), answer
        return answer.commit

    async def head(self, branch: BranchName = MAIN) -> CommitId:
        """The head's id."""
        return (await self.world.branches.head(self.repository, branch)).commit

    async def paths(self, ref: str = MAIN) -> list[str]:
        """The paths a reference shows."""
        page = await self.world.objects.list_page(self.repository, ref, prefix="")
        return [entry.path for entry in page.entries]

    async def commit(self, branch: BranchName, **files: bytes | None) -> CommitId:
        """Commit files."""
        return await self.world.commit_files(self.repository, branch, files)


async def build_scene(world: LakeFSWorld, main: dict[str, bytes | None]) -> Scene:
    repository = await world.create_repository()
    input_ref = await world.commit_files(repository, MAIN, {"kept": b"kept", **main})
    await world.branches.create(repository, STAGING, input_ref)
    staged = await world.commit_files(repository, STAGING, {"added": b"added"})
    return Scene(world, repository, input_ref, staged)


@pytest.fixture
async def scene(lakefs_world: LakeFSWorld) -> Scene:
    return await build_scene(lakefs_world, {})


@pytest.fixture
async def fenced(lakefs_world: LakeFSWorld) -> Scene:
    return await build_scene(lakefs_world, {FENCE_PATH: FENCE_FILE})
