"""Laws of perago.ports.branches."""

import asyncio
from dataclasses import dataclass, replace

import pytest
from tests.contract.lakefs_world import MAIN, LakeFSWorld

from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.outcome import (
    BrokenActions,
    DirtyTarget,
    HeadMoved,
    MergeAnswer,
    MergeConflict,
    Merged,
    NoChanges,
    RefusedByHook,
    Relocated,
    RelocationRefused,
)
from perago.domain.publication_fence import FENCE_FILE
from perago.domain.references import BranchName, CommitId, RepositoryId, TagName
from perago.domain.reserved_paths import FENCE_PATH
from perago.ports.branches import MergeRequest
from perago.ports.commits import CommitRequest
from perago.ports.errors import (
    BranchExistsError,
    BranchMissingError,
    BrokenActionsError,
    ExistsError,
    ReferenceMissingError,
)

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


async def test_B1_create_starts_at_source(scene: Scene) -> None:
    await scene.commit(MAIN, later=b"later")
    await scene.world.branches.create(scene.repository, BranchName("new"), scene.input_ref)
    assert await scene.head(BranchName("new")) == scene.input_ref


async def test_B2_create_refuses_existing(scene: Scene) -> None:
    with pytest.raises(BranchExistsError):
        await scene.world.branches.create(scene.repository, STAGING, scene.input_ref)
    assert await scene.head(STAGING) == scene.staged


async def test_B3_create_needs_a_known_source(scene: Scene) -> None:
    with pytest.raises(ReferenceMissingError):
        await scene.world.branches.create(scene.repository, NOWHERE, UNKNOWN)


async def test_B4_head_of_missing_branch(scene: Scene) -> None:
    with pytest.raises(BranchMissingError):
        await scene.head(NOWHERE)
    await scene.world.tags.create(scene.repository, TagName(NOWHERE), scene.input_ref)
    for name in (NOWHERE, BranchName(scene.input_ref[:8])):
        with pytest.raises(BranchMissingError):
            await scene.head(name)


async def test_B5_head_is_a_record(scene: Scene) -> None:
    told = {"perago.phase": "try", "empty": ""}
    request = CommitRequest(scene.repository, MAIN, "for humans", told, allow_empty=True)
    commit = await scene.world.commits.commit(request)
    head = await scene.world.branches.head(scene.repository, MAIN)
    assert (head.commit, head.parents, head.message) == (commit, (scene.input_ref,), "for humans")
    assert head.metadata == told


async def test_B6_delete_is_idempotent(scene: Scene) -> None:
    for _ in range(2):
        await scene.world.branches.delete(scene.repository, STAGING)
    with pytest.raises(BranchMissingError):
        await scene.head(STAGING)


async def test_B7_squash_merge_has_one_parent(scene: Scene) -> None:
    told = {"perago.phase": "confirm", EXPECTED_HEAD: scene.input_ref}
    commit = await scene.merged(replace(scene.request, metadata=told, message="published"))
    head = await scene.world.branches.head(scene.repository, MAIN)
    assert (head.commit, head.parents, head.message) == (commit, (scene.input_ref,), "published")
    assert told.items() <= head.metadata.items()
    assert await scene.paths() == ["added", "kept"]


async def test_B8_merge_takes_a_commit_id(scene: Scene) -> None:
    await scene.commit(STAGING, afterwards=b"not in the staged commit")
    await scene.merged(replace(scene.request, source=scene.staged))
    assert await scene.paths() == ["added", "kept"]


async def test_B9_stale_merge_lands_on_the_new_head(scene: Scene) -> None:
    human = await scene.commit(MAIN, human=b"meanwhile")
    commit = await scene.merged()
    assert (await scene.world.commits.read(scene.repository, commit)).parents == (human,)
    assert await scene.paths() == ["added", "human", "kept"]


async def test_B10_conflicting_merge_is_a_conflict(scene: Scene) -> None:
    human = await scene.commit(MAIN, added=b"by a human, differently")
    assert isinstance(await scene.merge(), MergeConflict)
    assert await scene.head() == human


async def test_B11_second_merge_of_a_squashed_source_makes_an_empty_commit(scene: Scene) -> None:
    first = await scene.merged()
    request = replace(scene.request, message="again")
    second = await scene.world.commits.read(scene.repository, await scene.merged(request))
    assert second.parents == (first,)
    changes = await scene.world.commits.diff_page(scene.repository, first, second.commit, prefix="")
    assert changes.changes == ()


async def test_B12_merge_of_an_ancestor_has_no_changes(scene: Scene) -> None:
    merge = scene.world.merge_keeping_both_parents
    merged = await merge(scene.repository, scene.staged, MAIN)
    assert isinstance(await scene.merge(), NoChanges)
    assert await scene.head() == merged


async def test_B13_hook_refusal_names_the_head(fenced: Scene) -> None:
    human = await fenced.commit(MAIN, human=b"meanwhile")
    answer = await fenced.merge(fenced.expecting(fenced.input_ref))
    assert isinstance(answer, HeadMoved)
    assert f"perago.head_moved {fenced.input_ref} {human}" in answer.text
    assert await fenced.head() == human


async def test_B14_hook_passes_the_expected_head(fenced: Scene) -> None:
    commit = await fenced.merged(fenced.expecting(fenced.input_ref))
    record = await fenced.world.commits.read(fenced.repository, commit)
    assert record.parents == (fenced.input_ref,)


async def test_B15_hooks_come_from_the_source(fenced: Scene) -> None:
    await fenced.world.commit_files(fenced.repository, STAGING, {FENCE_PATH: None})
    human = await fenced.commit(MAIN, human=b"meanwhile")
    request = replace(fenced.expecting(fenced.input_ref), source=STAGING)
    commit = await fenced.merged(request)
    assert (await fenced.world.commits.read(fenced.repository, commit)).parents == (human,)
    assert FENCE_PATH not in await fenced.paths()


async def test_B16_other_hook_refusal_is_not_ours(scene: Scene) -> None:
    files = {"_lakefs_actions/no_entry.yaml": REFUSING_FILE}
    staged = await scene.world.commit_files(scene.repository, STAGING, files)
    answer = await scene.merge(replace(scene.request, source=staged))
    assert isinstance(answer, RefusedByHook)
    assert "closed on Sundays" in answer.text
    assert await scene.head() == scene.input_ref


async def test_B17_broken_action_file_blocks_the_merge(scene: Scene) -> None:
    staged = await scene.world.commit_unchecked(scene.repository, STAGING, BROKEN_FILE)
    answer = await scene.merge(replace(scene.request, source=staged))
    assert isinstance(answer, BrokenActions)
    assert "_lakefs_actions/broken.yaml" in answer.text
    assert await scene.head() == scene.input_ref


async def test_B18_merge_into_a_dirty_branch(scene: Scene) -> None:
    await scene.world.write(scene.repository, MAIN, "left behind", b"uncommitted")
    assert isinstance(await scene.merge(), DirtyTarget)
    assert await scene.head() == scene.input_ref
    assert await scene.paths() == ["kept", "left behind"]


async def test_B19_merge_into_missing_branch(scene: Scene) -> None:
    with pytest.raises(BranchMissingError):
        await scene.merge(replace(scene.request, target=NOWHERE))


async def test_B20_race_on_one_expected_head_has_one_winner(fenced: Scene) -> None:
    publishers = 6
    staged = [fenced.staged]
    for number in range(1, publishers):
        branch = BranchName(f"staging-{number}")
        await fenced.world.branches.create(fenced.repository, branch, fenced.input_ref)
        staged.append(await fenced.commit(branch, **{f"by-{number}": b"mine"}))
    fence = fenced.expecting(fenced.input_ref)
    answers = await asyncio.gather(
        *(fenced.merge(replace(fence, source=source)) for source in staged)
    )
    winners = [answer.commit for answer in answers if isinstance(answer, Merged)]
    head = await fenced.world.branches.head(fenced.repository, MAIN)
    assert (winners, head.parents) == ([head.commit], (fenced.input_ref,))


async def test_B21_relocate_points_the_branch(scene: Scene) -> None:
    await scene.commit(MAIN, abandoned=b"abandoned")
    relocate = scene.world.branches.relocate
    for commit in (scene.staged, scene.input_ref):
        assert await relocate(scene.repository, MAIN, commit) == Relocated()
        assert await scene.head() == commit
    assert await scene.paths() == ["kept"]


async def test_B22_relocate_of_a_protected_branch(scene: Scene) -> None:
    await scene.world.protect(scene.repository, MAIN)
    assert await scene.world.branches.is_protected(scene.repository, MAIN)
    assert not await scene.world.branches.is_protected(scene.repository, STAGING)
    answer = await scene.world.branches.relocate(scene.repository, MAIN, scene.staged)
    assert isinstance(answer, RelocationRefused)
    assert answer.protected
    assert await scene.head() == scene.input_ref
    assert await scene.merged() == await scene.head()


async def test_B23_relocate_keeps_uncommitted_objects(scene: Scene) -> None:
    await scene.world.write(scene.repository, MAIN, "left behind", b"uncommitted")
    answer = await scene.world.branches.relocate(scene.repository, MAIN, scene.staged)
    assert answer == Relocated()
    dirt = await scene.world.commits.uncommitted_page(scene.repository, MAIN)
    assert [change.path for change in dirt.changes] == ["left behind"]
    assert isinstance(await scene.merge(replace(scene.request, allow_empty=True)), DirtyTarget)


async def test_B24_relocate_to_an_unknown_commit(scene: Scene) -> None:
    with pytest.raises(ReferenceMissingError):
        await scene.world.branches.relocate(scene.repository, MAIN, UNKNOWN)
    assert await scene.head() == scene.input_ref


async def test_B25_list_is_paged_by_prefix(scene: Scene) -> None:
    wanted = [BranchName(f"run-{number}") for number in range(5)]
    for name in (*wanted, BranchName("running"), BranchName("rum")):
        await scene.world.branches.create(scene.repository, name, scene.input_ref)
    found: list[BranchName] = []
    more = True
    while more:
        after = found[-1] if found else ""
        page = await scene.world.branches.list_page(scene.repository, "run-", after, 2)
        assert len(page.names) == len(page.heads) <= 2
        assert set(page.heads) == {scene.input_ref}
        found.extend(page.names)
        more = page.more
    assert found == wanted


async def test_B26_branch_of_broken_actions_is_refused(scene: Scene) -> None:
    broken = await scene.world.commit_unchecked(scene.repository, STAGING, BROKEN_FILE)
    with pytest.raises(BrokenActionsError):
        await scene.world.branches.create(scene.repository, BranchName("new"), broken)
    with pytest.raises(BranchMissingError):
        await scene.head(BranchName("new"))


async def test_B27_empty_merge_needs_allow_empty(scene: Scene) -> None:
    await scene.world.branches.create(scene.repository, BranchName("no-op"), scene.input_ref)
    noop = await scene.commit(BranchName("no-op"))
    request = replace(scene.request, source=noop)
    assert isinstance(await scene.merge(request), NoChanges)
    assert await scene.head() == scene.input_ref
    await scene.merged(replace(request, allow_empty=True))
    assert await scene.paths() == ["kept"]


async def test_B28_conflicting_race_is_never_merged_twice(fenced: Scene) -> None:
    other = BranchName("other")
    await fenced.world.branches.create(fenced.repository, other, fenced.input_ref)
    theirs = await fenced.commit(other, added=b"added by another, differently")
    fence = fenced.expecting(fenced.input_ref)
    winner = await fenced.merged(replace(fence, source=theirs))
    refused = await fenced.merge(fence)
    assert isinstance(refused, MergeConflict | HeadMoved)
    assert await fenced.head() == winner
    content = await fenced.world.objects.read(fenced.repository, MAIN, "added")
    assert content == b"added by another, differently"


async def test_B29_broken_actions_block_deletion(scene: Scene) -> None:
    broken = await scene.world.commit_unchecked(scene.repository, STAGING, BROKEN_FILE)
    with pytest.raises(BrokenActionsError):
        await scene.world.branches.delete(scene.repository, STAGING)
    assert await scene.head(STAGING) == broken


async def test_B30_branches_share_names_with_tags(scene: Scene) -> None:
    await scene.world.tags.create(scene.repository, TagName(NOWHERE), scene.input_ref)
    with pytest.raises(ExistsError):
        await scene.world.branches.create(scene.repository, NOWHERE, scene.input_ref)
    with pytest.raises(BranchMissingError):
        await scene.head(NOWHERE)
