"""Merges of private branches by people, on a real lakeFS: what the fence sees, and what not."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

import pytest
import pytest_asyncio
from tests.contract.real_lakefs import RealLakeFS, connected

from perago.adapters.system import SystemClock
from perago.app.fence.install import FenceChange, install_fence
from perago.app.fence.trust import FenceVerdict, ProtectedMerge, verify_fence
from perago.domain.fence import FENCE_FILE, FENCE_FILE_1, FenceState
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, TagName
from perago.domain.names import CANARY_BRANCH_PREFIX
from perago.domain.paths import FENCE_PATH
from perago.ports.errors import RequestRefusedError
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer

pytestmark = pytest.mark.lakefs

PRIVATE = ("perago-staging-a-1", "perago-run-1", "perago-scratch-checkpoint-1")
DECISION = TagName("perago-settled-1-2")
# What the page "Compare" of lakeFS's web page sends, and the least that its API takes.
BODIES: Mapping[str, Mapping[str, object]] = {
    "the web page": {"strategy": "", "message": "by hand", "metadata": {}},
    "the API": {},
    "a squash": {"squash_merge": True},
    "a strategy": {"strategy": "source-wins", "force": True, "allow_empty": True},
}
TELLING = b"""\
name: tells what it sees
on:
  pre-merge:
hooks:
  - id: telling
    type: lua
    properties:
      script: |
        local seen = {action.merge_source, action.source_ref, tostring(action.commit.parents[1])}
        local keys = {}
        for key, _ in pairs(action) do table.insert(keys, key) end
        table.sort(keys)
        error("seen " .. table.concat(seen, " ") .. " of " .. table.concat(keys, " "))
"""


@pytest_asyncio.fixture
async def harness(lakefs_server: LakefsServer) -> AsyncGenerator[RealLakeFS]:
    async with connected(lakefs_server) as connection:
        yield connection


@dataclass(frozen=True)
class Scene:
    """A fenced repository with private branches, each with a commit above main."""

    harness: RealLakeFS
    repository: RepositoryId
    head: CommitId
    staged: dict[str, CommitId]

    async def merge(self, source: str, body: Mapping[str, object]) -> tuple[int, str]:
        """Merge as a person does."""
        status, answer = await asyncio.to_thread(
            self.harness.ask_past, self.repository, f"refs/{source}/merge/{MAIN}", body
        )
        return status, str(json.loads(answer).get("message"))

    async def is_untouched(self) -> bool:
        """Whether main is where it was."""
        return (await self.harness.branches.head(self.repository, MAIN)).commit == self.head


async def scene_with(harness: RealLakeFS, fence: bytes) -> Scene:
    repository = await harness.create_repository()
    head = await harness.commit_files(repository, MAIN, {"a": b"1", FENCE_PATH: fence})
    staged: dict[str, CommitId] = {}
    for name in PRIVATE:
        await harness.branches.create(repository, BranchName(name), head, hidden=True)
        staged[name] = await harness.commit_files(
            repository, BranchName(name), {"a": name.encode()}
        )
    await harness.tags.create(repository, DECISION, staged[PRIVATE[0]])
    return Scene(harness, repository, head, staged)


async def verified(harness: RealLakeFS, repository: RepositoryId) -> FenceVerdict:
    return await verify_fence(harness.fence_tools, SystemClock(), repository, MAIN)


async def test_a_private_branch_is_not_merged_by_hand(harness: RealLakeFS) -> None:
    scene = await scene_with(harness, FENCE_FILE)
    for source in (*PRIVATE, DECISION, f"{PRIVATE[0]}~0", f"{PRIVATE[1]}@"):
        for body in BODIES.values():
            status, text = await scene.merge(source, body)
            assert status == 412, (source, body, text)
            assert f"perago.private_branch {source}: publish through Perago" in text
            assert "perago explain PRG-F027" in text
    assert await scene.is_untouched()


async def test_a_pull_request_of_a_private_branch_is_not_merged(harness: RealLakeFS) -> None:
    scene = await scene_with(harness, FENCE_FILE)
    pulls = f"/repositories/{scene.repository}/pulls"
    for source in PRIVATE:
        request = {"title": "by hand", "source_branch": source, "destination_branch": MAIN}
        made = json.loads(await harness.tell("POST", pulls, request))
        with pytest.raises(RequestRefusedError, match=r"412 .*perago\.private_branch"):
            await harness.tell("PUT", f"{pulls}/{made['id']}/merge", None)
    assert await scene.is_untouched()


async def test_a_commit_id_tells_the_hook_nothing(harness: RealLakeFS) -> None:
    """Nor the branches that hold it, nor its metadata: docs/guarantees.md says so."""
    scene = await scene_with(harness, FENCE_FILE)
    judged = await harness.commit_files(
        scene.repository, BranchName(PRIVATE[0]), {"_lakefs_actions/telling.yaml": TELLING}
    )
    status, text = await scene.merge(judged, {})
    assert status == 412
    assert f"seen {judged} {judged} {scene.head} of " in text
    keys = text.partition(" of ")[2].split()
    assert {"commit", "merge_source", "source_ref"} <= set(keys)
    assert not {"source_metadata", "source_commit", "branches"} & set(keys)

    status, _ = await scene.merge(scene.staged[PRIVATE[0]], {})
    assert status == 200


async def test_the_old_fence_lets_a_private_branch_pass(harness: RealLakeFS) -> None:
    scene = await scene_with(harness, FENCE_FILE_1)
    status, _ = await scene.merge(PRIVATE[1], {})
    assert status == 200


async def test_an_old_fence_is_replaced_on_a_branch_that_is_protected_first(
    harness: RealLakeFS,
) -> None:
    repository = (await scene_with(harness, FENCE_FILE_1)).repository
    old = await verified(harness, repository)
    assert (old.state, old.version, old.protected) == (FenceState.TRUSTED, 1, False)
    assert "is old" in old.warnings[0]

    report = await install_fence(harness.fence_tools, repository, MAIN, protect=True)
    assert (report.change, report.protected) == (FenceChange.REPLACED, True)

    new = await verified(harness, repository)
    assert (new.state, new.version, new.warnings) == (FenceState.TRUSTED, 2, ())
    assert new.protected_merge is old.protected_merge is ProtectedMerge.PASSES
    settings = f"/repositories/{repository}/settings/branch_protection"
    assert json.loads(await harness.tell("GET", settings, None)) == [{"pattern": MAIN}]
    left = await harness.branches.list_page(repository, CANARY_BRANCH_PREFIX, show_hidden=True)
    assert left.items == ()
