"""Laws of perago.ports.lakefs."""

import asyncio

import pytest

from perago.domain.lakefs import BranchName, CommitId, TagName
from perago.ports.asking import pages
from perago.ports.errors import (
    BrokenActionsError,
    ExistsError,
    OutcomeUnknownError,
    ReferenceMissingError,
    TagExistsError,
)
from perago.ports.lakefs import TagRecord
from perago.testing.contract.lakefs_under_test import UNKNOWN, Scene
from perago.testing.contract.lakefs_under_test import scene as scene

TAG = TagName("perago-settled-1a2b.3")


async def create(scene: Scene, commit: CommitId, tag: TagName = TAG) -> None:
    await scene.tags.create(scene.repository, tag, commit)


async def read(scene: Scene, tag: TagName = TAG) -> CommitId | None:
    return await scene.tags.read(scene.repository, tag)


async def test_T1_create_puts_if_absent(scene: Scene) -> None:
    await create(scene, scene.input_ref)
    assert await read(scene) == scene.input_ref


async def test_T2_create_refuses_existing(scene: Scene) -> None:
    await create(scene, scene.input_ref)
    for commit in (scene.staged, scene.input_ref):
        with pytest.raises(TagExistsError):
            await create(scene, commit)
    assert await read(scene) == scene.input_ref


async def test_T3_race_has_one_winner(scene: Scene) -> None:
    commits = [scene.input_ref, scene.staged] * 4
    answers = await asyncio.gather(
        *(create(scene, commit) for commit in commits), return_exceptions=True
    )
    winners = [commit for commit, answer in zip(commits, answers, strict=True) if answer is None]
    assert [type(answer) for answer in answers if answer is not None] == [TagExistsError] * 7
    assert winners == [await read(scene)]


async def test_T4_absent_tag_reads_as_none(scene: Scene) -> None:
    assert await read(scene) is None


async def test_T5_delete_is_idempotent(scene: Scene) -> None:
    await create(scene, scene.input_ref)
    for _ in range(2):
        await scene.tags.delete(scene.repository, TAG)
    assert await read(scene) is None
    await create(scene, scene.staged)
    assert await read(scene) == scene.staged


async def test_T6_list_is_paged_by_prefix(scene: Scene) -> None:
    wanted = [TagRecord(TagName(f"run-{number}"), scene.input_ref) for number in range(5)]
    for name in (*(record.name for record in wanted), TagName("running"), TagName("rum")):
        await create(scene, scene.input_ref, name)
    found: list[TagRecord] = []
    listed = scene.tags.list_page
    async for page in pages(lambda after: listed(scene.repository, "run-", after, 2)):
        assert 0 < len(page.tags) <= 2
        found.extend(page.tags)
    assert found == wanted


async def test_T7_unknown_commit(scene: Scene) -> None:
    with pytest.raises(ReferenceMissingError):
        await create(scene, UNKNOWN)
    assert await read(scene) is None


async def test_T8_broken_actions_block_creation(scene: Scene) -> None:
    branch = BranchName("broken")
    await scene.create_branch(branch, scene.input_ref)
    files = {"_lakefs_actions/README.md": b"not an action"}
    broken = await scene.under_test.commit_unchecked(scene.repository, branch, files)
    with pytest.raises(BrokenActionsError):
        await create(scene, broken)
    assert await read(scene) is None


async def test_T9_tags_share_names_with_branches(scene: Scene) -> None:
    branch = BranchName("branch")
    await scene.create_branch(branch, scene.input_ref)
    for commit in (scene.staged, UNKNOWN):
        with pytest.raises(ExistsError):
            await create(scene, commit, TagName(branch))
    assert await scene.tags.read(scene.repository, TagName(branch)) is None


async def test_T10_lost_answer_is_unknown(scene: Scene) -> None:
    async with scene.under_test.losing_answers() as losing:
        with pytest.raises(OutcomeUnknownError):
            await losing.tags.create(scene.repository, TAG, scene.input_ref)
        assert await read(scene) == scene.input_ref
        with pytest.raises(OutcomeUnknownError):
            await losing.tags.delete(scene.repository, TAG)
    assert await read(scene) is None
