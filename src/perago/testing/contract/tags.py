"""Laws of perago.ports.lakefs."""

import asyncio
from dataclasses import dataclass

import pytest

from perago.domain.logical_execution import BranchName, CommitId, RepositoryId, TagName
from perago.ports.errors import (
    BrokenActionsError,
    ExistsError,
    OutcomeUnknownError,
    ReferenceMissingError,
    TagExistsError,
)
from perago.ports.lakefs import TagRecord
from perago.testing.contract.lakefs_under_test import MAIN, LakeFSUnderTest

TAG = TagName("perago-settled-1a2b.3")
UNKNOWN = CommitId("f" * 64)  # the form of a commit id, and the id of no commit


@dataclass(frozen=True, slots=True)
class Scene:
    """A repository with two commits on main."""

    under_test: LakeFSUnderTest
    repository: RepositoryId
    first: CommitId
    second: CommitId

    async def create(self, commit: CommitId, tag: TagName = TAG) -> None:
        """Create a tag."""
        await self.under_test.tags.create(self.repository, tag, commit)

    async def read(self, tag: TagName = TAG) -> CommitId | None:
        """Read a tag."""
        return await self.under_test.tags.read(self.repository, tag)


@pytest.fixture
async def scene(lakefs_under_test: LakeFSUnderTest) -> Scene:
    repository = await lakefs_under_test.create_repository()
    first = await lakefs_under_test.commit_files(repository, MAIN, {"a": b"1"})
    second = await lakefs_under_test.commit_files(repository, MAIN, {"a": b"2"})
    return Scene(lakefs_under_test, repository, first, second)


async def test_T1_create_puts_if_absent(scene: Scene) -> None:
    await scene.create(scene.first)
    assert await scene.read() == scene.first


async def test_T2_create_refuses_existing(scene: Scene) -> None:
    await scene.create(scene.first)
    for commit in (scene.second, scene.first):
        with pytest.raises(TagExistsError):
            await scene.create(commit)
    assert await scene.read() == scene.first


async def test_T3_race_has_one_winner(scene: Scene) -> None:
    commits = [scene.first, scene.second] * 4
    answers = await asyncio.gather(
        *(scene.create(commit) for commit in commits), return_exceptions=True
    )
    winners = [commit for commit, answer in zip(commits, answers, strict=True) if answer is None]
    assert [type(answer) for answer in answers if answer is not None] == [TagExistsError] * 7
    assert winners == [await scene.read()]


async def test_T4_absent_tag_reads_as_none(scene: Scene) -> None:
    assert await scene.read() is None


async def test_T5_delete_is_idempotent(scene: Scene) -> None:
    await scene.create(scene.first)
    for _ in range(2):
        await scene.under_test.tags.delete(scene.repository, TAG)
    assert await scene.read() is None
    await scene.create(scene.second)
    assert await scene.read() == scene.second


async def test_T6_list_is_paged_by_prefix(scene: Scene) -> None:
    wanted = [TagRecord(TagName(f"run-{number}"), scene.first) for number in range(5)]
    for name in (*(record.name for record in wanted), TagName("running"), TagName("rum")):
        await scene.create(scene.first, name)
    found: list[TagRecord] = []
    more = True
    while more:
        after = found[-1].name if found else ""
        page = await scene.under_test.tags.list_page(scene.repository, "run-", after, 2)
        assert 0 < len(page.tags) <= 2
        found.extend(page.tags)
        more = page.more
    assert found == wanted


async def test_T7_unknown_commit(scene: Scene) -> None:
    with pytest.raises(ReferenceMissingError):
        await scene.create(UNKNOWN)
    assert await scene.read() is None


async def test_T8_broken_actions_block_creation(scene: Scene) -> None:
    branch = BranchName("broken")
    await scene.under_test.branches.create(scene.repository, branch, scene.first)
    files = {"_lakefs_actions/README.md": b"not an action"}
    broken = await scene.under_test.commit_unchecked(scene.repository, branch, files)
    with pytest.raises(BrokenActionsError):
        await scene.create(broken)
    assert await scene.read() is None


async def test_T9_tags_share_names_with_branches(scene: Scene) -> None:
    branch = BranchName("branch")
    await scene.under_test.branches.create(scene.repository, branch, scene.first)
    for commit in (scene.second, UNKNOWN):
        with pytest.raises(ExistsError):
            await scene.create(commit, TagName(branch))
    assert await scene.under_test.tags.read(scene.repository, TagName(branch)) is None


async def test_T10_lost_answer_is_unknown(scene: Scene) -> None:
    async with scene.under_test.losing_answers() as losing:
        with pytest.raises(OutcomeUnknownError):
            await losing.tags.create(scene.repository, TAG, scene.first)
        assert await scene.read() == scene.first
        with pytest.raises(OutcomeUnknownError):
            await losing.tags.delete(scene.repository, TAG)
    assert await scene.read() is None
