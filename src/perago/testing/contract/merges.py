"""Laws of perago.ports.lakefs: merges, and the hooks that refuse them."""

import asyncio
from dataclasses import replace

import pytest

from perago.domain import outcome
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.lakefs import BranchName, TagName
from perago.domain.paths import FENCE_PATH
from perago.ports.errors import BranchMissingError
from perago.testing.contract.lakefs_under_test import (
    BROKEN_FILE,
    MAIN,
    NOWHERE,
    REFUSING_FILE,
    STAGING,
    Scene,
)
from perago.testing.contract.lakefs_under_test import fenced as fenced
from perago.testing.contract.lakefs_under_test import scene as scene


async def test_B7_squash_merge_has_one_parent(scene: Scene) -> None:
    metadata = {"perago.phase": "confirm", EXPECTED_HEAD: scene.input_ref}
    commit = await scene.merged(replace(scene.request, metadata=metadata, message="published"))
    head = await scene.record()
    assert (head.commit, head.parents, head.message) == (commit, (scene.input_ref,), "published")
    assert metadata.items() <= head.metadata.items()
    assert await scene.paths() == ["added", "kept"]


async def test_B8_merge_takes_a_commit_id(scene: Scene) -> None:
    await scene.commit(STAGING, afterwards=b"not in the staged commit")
    await scene.merged(replace(scene.request, source=scene.staged))
    assert await scene.paths() == ["added", "kept"]


async def test_B9_stale_merge_lands_on_the_new_head(scene: Scene) -> None:
    human = await scene.commit(MAIN, human=b"meanwhile")
    commit = await scene.merged()
    assert (await scene.read(commit)).parents == (human,)
    assert await scene.paths() == ["added", "human", "kept"]


async def test_B10_conflicting_merge_is_a_conflict(scene: Scene) -> None:
    human = await scene.commit(MAIN, added=b"by a human, differently")
    assert isinstance(await scene.merge(), outcome.MergeConflict)
    assert await scene.head() == human


async def test_B11_second_merge_of_a_squashed_source_makes_an_empty_commit(scene: Scene) -> None:
    first = await scene.merged()
    request = replace(scene.request, message="again")
    second = await scene.read(await scene.merged(request))
    assert second.parents == (first,)
    changes = await scene.commits.diff_page(scene.repository, first, second.commit, prefix="")
    assert changes.items == ()


async def test_B12_merge_of_an_ancestor_has_no_changes(scene: Scene) -> None:
    merged = await scene.merged(replace(scene.request, squash=False))
    assert isinstance(await scene.merge(), outcome.NoChanges)
    assert await scene.head() == merged


async def test_B13_hook_refusal_names_the_head(fenced: Scene) -> None:
    human = await fenced.commit(MAIN, human=b"meanwhile")
    answer = await fenced.merge(fenced.expecting(fenced.input_ref))
    assert isinstance(answer, outcome.HeadMoved)
    assert f"perago.head_moved {fenced.input_ref} {human}" in answer.text
    assert await fenced.head() == human


async def test_B14_hook_passes_the_expected_head(fenced: Scene) -> None:
    commit = await fenced.merged(fenced.expecting(fenced.input_ref))
    record = await fenced.read(commit)
    assert record.parents == (fenced.input_ref,)


async def test_B15_hooks_come_from_the_source(fenced: Scene) -> None:
    await fenced.under_test.commit_files(fenced.repository, STAGING, {FENCE_PATH: None})
    human = await fenced.commit(MAIN, human=b"meanwhile")
    request = replace(fenced.expecting(fenced.input_ref), source=STAGING)
    commit = await fenced.merged(request)
    assert (await fenced.read(commit)).parents == (human,)
    assert FENCE_PATH not in await fenced.paths()


async def test_B16_other_hook_refusal_is_not_ours(scene: Scene) -> None:
    files = {"_lakefs_actions/no_entry.yaml": REFUSING_FILE}
    staged = await scene.under_test.commit_files(scene.repository, STAGING, files)
    answer = await scene.merge(replace(scene.request, source=staged))
    assert isinstance(answer, outcome.RefusedByHook)
    assert "closed on Sundays" in answer.text
    assert await scene.head() == scene.input_ref


async def test_B17_broken_action_file_blocks_the_merge(scene: Scene) -> None:
    staged = await scene.under_test.commit_unchecked(scene.repository, STAGING, BROKEN_FILE)
    answer = await scene.merge(replace(scene.request, source=staged))
    assert isinstance(answer, outcome.BrokenActions)
    assert "_lakefs_actions/broken.yaml" in answer.text
    assert await scene.head() == scene.input_ref


async def test_B18_merge_into_a_dirty_branch(scene: Scene) -> None:
    await scene.under_test.write(scene.repository, MAIN, "left behind", b"uncommitted")
    assert isinstance(await scene.merge(), outcome.DirtyTarget)
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
        await fenced.create_branch(branch, fenced.input_ref)
        staged.append(await fenced.commit(branch, **{f"by-{number}": b"mine"}))
    fence = fenced.expecting(fenced.input_ref)
    answers = await asyncio.gather(
        *(fenced.merge(replace(fence, source=source)) for source in staged)
    )
    winners = [answer.commit for answer in answers if isinstance(answer, outcome.Merged)]
    head = await fenced.record()
    assert (winners, head.parents) == ([head.commit], (fenced.input_ref,))


async def test_B27_empty_merge_needs_allow_empty(scene: Scene) -> None:
    await scene.create_branch(BranchName("no-op"), scene.input_ref)
    noop = await scene.commit(BranchName("no-op"))
    request = replace(scene.request, source=noop)
    assert isinstance(await scene.merge(request), outcome.NoChanges)
    assert await scene.head() == scene.input_ref
    await scene.merged(replace(request, allow_empty=True))
    assert await scene.paths() == ["kept"]


async def test_B28_conflicting_race_is_never_merged_twice(fenced: Scene) -> None:
    other = BranchName("other")
    await fenced.create_branch(other, fenced.input_ref)
    theirs = await fenced.commit(other, added=b"added by another, differently")
    fence = fenced.expecting(fenced.input_ref)
    winner = await fenced.merged(replace(fence, source=theirs))
    refused = await fenced.merge(fence)
    assert isinstance(refused, outcome.MergeConflict | outcome.HeadMoved)
    assert await fenced.head() == winner
    content = await fenced.objects.read(fenced.repository, MAIN, "added")
    assert content == b"added by another, differently"


async def test_B33_merge_without_squash_has_two_parents(scene: Scene) -> None:
    human = await scene.commit(MAIN, human=b"meanwhile")
    metadata = {"perago.phase": "confirm", EXPECTED_HEAD: human}
    keeping = replace(scene.request, message="by commit", metadata=metadata, squash=False)
    commit = await scene.merged(keeping)
    head = await scene.record()
    assert (head.commit, head.parents, head.message) == (commit, (human, scene.staged), "by commit")
    assert metadata.items() <= head.metadata.items()
    later = await scene.commit(STAGING, later=b"later")
    await scene.merged(replace(keeping, source=STAGING, message="by branch"))
    head = await scene.record()
    assert (head.parents, head.message) == ((commit, later), "by branch")
    assert await scene.paths() == ["added", "human", "kept", "later"]


async def test_B34_hook_sees_the_head_without_squash(fenced: Scene) -> None:
    human = await fenced.commit(MAIN, human=b"meanwhile")
    for wrong in (fenced.input_ref, fenced.staged):
        refused = await fenced.merge(replace(fenced.expecting(wrong), squash=False))
        assert isinstance(refused, outcome.HeadMoved)
        assert f"perago.head_moved {wrong} {human}" in refused.text
        assert await fenced.head() == human
    commit = await fenced.merged(replace(fenced.expecting(human), squash=False))
    record = await fenced.read(commit)
    assert record.parents == (human, fenced.staged)


async def test_B37_merge_without_a_message_names_both_sides(scene: Scene) -> None:
    for source in (scene.staged, STAGING):
        await scene.merged(replace(scene.request, source=source, message=""))
        head = await scene.record()
        assert head.message == f"Merge '{source}' into 'main'"


@pytest.mark.parametrize("squash", [True, False], ids=["squashed", "both parents"])
async def test_B38_hook_sees_the_source_as_it_was_sent(
    fenced: Scene,
    squash: bool,  # noqa: FBT001 - of the table
) -> None:
    branches, tags = fenced.branches, fenced.tags
    names = ["perago-staging-1", "perago-run-1", "perago-scratch-1"]
    for name in names:
        await branches.create(fenced.repository, BranchName(name), fenced.staged, hidden=True)
    await tags.create(fenced.repository, TagName("perago-settled-1"), fenced.staged)
    request = replace(fenced.request, squash=squash)
    for source in (*names, "perago-settled-1", f"{names[0]}~0"):
        refused = await fenced.merge(replace(request, source=source))
        assert isinstance(refused, outcome.RefusedByHook)
        assert f"perago.private_branch {source}: publish through Perago" in refused.text
    assert await fenced.head() == fenced.input_ref
    expecting = replace(fenced.expecting(fenced.input_ref), source=names[1], squash=squash)
    published = await fenced.merged(expecting)
    await fenced.branches.relocate(fenced.repository, MAIN, fenced.input_ref)
    assert published != await fenced.merged(request), "the id tells the hook nothing"
