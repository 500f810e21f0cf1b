"""Laws of perago.ports.lakefs: branches without merges, tags, and repositories.

Of branches: names, heads, relocations. What a merge does is in `merges`.
"""

import asyncio
from dataclasses import replace

import pytest

from perago.domain.lakefs import BranchName, CommitId, RepositoryId, TagName
from perago.domain.outcome import DirtyTarget, NoAnswer, Relocated, RelocationRefused
from perago.ports import errors
from perago.ports.asking import pages
from perago.ports.lakefs import BranchRecord, CommitRequest, TagRecord
from perago.ports.objects import Page
from perago.testing.contract.lakefs_under_test import (
    BROKEN_FILE,
    MAIN,
    NOWHERE,
    STAGING,
    UNKNOWN,
    LakeFSUnderTest,
    Scene,
)
from perago.testing.contract.lakefs_under_test import fenced as fenced
from perago.testing.contract.lakefs_under_test import scene as scene


async def test_B1_create_starts_at_source(scene: Scene) -> None:
    await scene.commit(MAIN, later=b"later")
    await scene.create_branch(BranchName("new"), scene.input_ref)
    assert await scene.head(BranchName("new")) == scene.input_ref


async def test_B2_create_refuses_existing(scene: Scene) -> None:
    with pytest.raises(errors.BranchExistsError):
        await scene.create_branch(STAGING, scene.input_ref)
    assert await scene.head(STAGING) == scene.staged


async def test_B3_create_needs_a_known_source(scene: Scene) -> None:
    with pytest.raises(errors.ReferenceMissingError):
        await scene.create_branch(NOWHERE, UNKNOWN)


async def test_B4_head_of_missing_branch(scene: Scene) -> None:
    with pytest.raises(errors.BranchMissingError):
        await scene.head(NOWHERE)
    await scene.tags.create(scene.repository, TagName(NOWHERE), scene.input_ref)
    for name in (NOWHERE, BranchName(scene.input_ref[:8])):
        with pytest.raises(errors.BranchMissingError):
            await scene.head(name)


async def test_B5_head_is_a_record(scene: Scene) -> None:
    metadata = {"perago.phase": "try", "empty": ""}
    request = CommitRequest(scene.repository, MAIN, "for humans", metadata, allow_empty=True)
    commit = await scene.commits.commit(request)
    head = await scene.record()
    assert (head.commit, head.parents, head.message) == (commit, (scene.input_ref,), "for humans")
    assert head.metadata == metadata


async def test_B6_delete_is_idempotent(scene: Scene) -> None:
    for _ in range(2):
        await scene.branches.delete(scene.repository, STAGING)
    with pytest.raises(errors.BranchMissingError):
        await scene.head(STAGING)


async def test_B21_relocate_points_the_branch(scene: Scene) -> None:
    await scene.commit(MAIN, abandoned=b"abandoned")
    relocate = scene.branches.relocate
    for commit in (scene.staged, scene.input_ref):
        assert await relocate(scene.repository, MAIN, commit) == Relocated()
        assert await scene.head() == commit
    assert await scene.paths() == ["kept"]


async def test_B22_relocate_of_a_protected_branch(scene: Scene) -> None:
    await scene.under_test.protect(scene.repository, MAIN)
    assert await scene.branches.is_protected(scene.repository, MAIN)
    assert not await scene.branches.is_protected(scene.repository, STAGING)
    answer = await scene.branches.relocate(scene.repository, MAIN, scene.staged)
    assert isinstance(answer, RelocationRefused)
    assert answer.protected
    assert await scene.head() == scene.input_ref
    assert await scene.merged() == await scene.head()


async def test_B23_relocate_keeps_uncommitted_objects(scene: Scene) -> None:
    await scene.under_test.write(scene.repository, MAIN, "left behind", b"uncommitted")
    answer = await scene.branches.relocate(scene.repository, MAIN, scene.staged)
    assert answer == Relocated()
    dirt = await scene.commits.uncommitted_page(scene.repository, MAIN)
    assert [change.path for change in dirt.items] == ["left behind"]
    assert isinstance(await scene.merge(replace(scene.request, allow_empty=True)), DirtyTarget)


async def test_B24_relocate_to_an_unknown_commit(scene: Scene) -> None:
    with pytest.raises(errors.ReferenceMissingError):
        await scene.branches.relocate(scene.repository, MAIN, UNKNOWN)
    assert await scene.head() == scene.input_ref


async def test_B25_list_is_paged_by_prefix(scene: Scene) -> None:
    wanted = [BranchName(f"run-{number}") for number in range(5)]
    for name in (*wanted, BranchName("running"), BranchName("rum")):
        await scene.create_branch(name, scene.input_ref)
    found: list[BranchName] = []
    listed = scene.branches.list_page
    async for page in pages(lambda after: listed(scene.repository, "run-", after, 2)):
        assert len(page.items) <= 2
        assert {branch.head for branch in page.items} == {scene.input_ref}
        found.extend(branch.name for branch in page.items)
    assert found == wanted


async def test_B26_branch_of_broken_actions_is_refused(scene: Scene) -> None:
    broken = await scene.under_test.commit_unchecked(scene.repository, STAGING, BROKEN_FILE)
    with pytest.raises(errors.BrokenActionsError):
        await scene.create_branch(BranchName("new"), broken)
    with pytest.raises(errors.BranchMissingError):
        await scene.head(BranchName("new"))


async def test_B29_broken_actions_block_deletion(scene: Scene) -> None:
    broken = await scene.under_test.commit_unchecked(scene.repository, STAGING, BROKEN_FILE)
    with pytest.raises(errors.BrokenActionsError):
        await scene.branches.delete(scene.repository, STAGING)
    assert await scene.head(STAGING) == broken


async def test_B30_branches_share_names_with_tags(scene: Scene) -> None:
    await scene.tags.create(scene.repository, TagName(NOWHERE), scene.input_ref)
    for source in (scene.input_ref, UNKNOWN):
        with pytest.raises(errors.ExistsError):
            await scene.create_branch(NOWHERE, source)
    with pytest.raises(errors.BranchMissingError):
        await scene.head(NOWHERE)


async def test_B31_lost_answer_is_unknown(scene: Scene) -> None:
    new = BranchName("new")
    async with scene.under_test.losing_answers() as losing:
        with pytest.raises(errors.OutcomeUnknownError):
            await losing.branches.create(scene.repository, new, scene.input_ref)
        assert await scene.head(new) == scene.input_ref
        assert isinstance(await losing.branches.merge(scene.request), NoAnswer)
        assert await scene.head() != scene.input_ref
        relocation = await losing.branches.relocate(scene.repository, MAIN, scene.input_ref)
        assert isinstance(relocation, NoAnswer)
        assert await scene.head() == scene.input_ref
        with pytest.raises(errors.OutcomeUnknownError):
            await losing.branches.delete(scene.repository, new)
    with pytest.raises(errors.BranchMissingError):
        await scene.head(new)


def names_on(page: Page[BranchRecord]) -> list[BranchName]:
    """The names of branches on a page."""
    return [branch.name for branch in page.items]


async def test_B32_hidden_branch_is_listed_on_request(scene: Scene) -> None:
    branches, repository = scene.branches, scene.repository
    names = [BranchName(f"run-{number}") for number in range(5)]
    for number, name in enumerate(names):
        await branches.create(repository, name, scene.input_ref, hidden=number % 2 == 1)
    plain = await branches.list_page(repository, "run-", amount=2)
    assert (names_on(plain), plain.more) == ([names[0], names[2]], True)
    rest = await branches.list_page(repository, "run-", plain.last, 2)
    assert (names_on(rest), rest.more) == ([names[4]], False)
    shown = await branches.list_page(repository, "run-", amount=4, show_hidden=True)
    assert (names_on(shown), shown.more) == (names[:4], True)
    hidden = names[1]
    staged = await scene.commit(hidden, added=b"on a hidden branch")
    assert await scene.head(hidden) == staged
    await scene.merged(replace(scene.request, source=hidden))
    await branches.delete(repository, hidden)
    with pytest.raises(errors.BranchMissingError):
        await scene.head(hidden)


async def _protected(scene: Scene, *names: str) -> list[str]:
    asked = scene.branches.is_protected
    return [name for name in names if await asked(scene.repository, BranchName(name))]


async def test_B35_protect_adds_one_rule(scene: Scene) -> None:
    branches, repository = scene.branches, scene.repository
    for pattern in ("release-*", "mine", "mine"):
        await branches.protect(repository, pattern)
    await branches.protect(repository, "as-mine", like=BranchName("mine"))
    names = ("release-1", "mine", "minefield", "as-mine", "main")
    assert await _protected(scene, *names) == ["release-1", "mine", "as-mine"]


async def test_B36_unprotect_takes_one_rule(scene: Scene) -> None:
    branches, repository = scene.branches, scene.repository
    for pattern in ("release-*", "release-1", "mine"):
        await branches.protect(repository, pattern)
    for pattern in ("mine", "mine", "release-1", "unknown"):
        await branches.unprotect(repository, pattern)
    assert await _protected(scene, "release-1", "mine") == ["release-1"]


async def test_B39_ids_of_commits_are_no_names(scene: Scene) -> None:
    for source in (scene.input_ref, UNKNOWN):
        with pytest.raises(errors.ExistsError):
            await scene.create_branch(BranchName(scene.input_ref), source)
    page = await scene.branches.list_page(scene.repository, scene.input_ref)
    assert page.items == ()


TAG = TagName("perago-settled-1a2b.3")


async def create_tag(scene: Scene, commit: CommitId, tag: TagName = TAG) -> None:
    await scene.tags.create(scene.repository, tag, commit)


async def read_tag(scene: Scene, tag: TagName = TAG) -> CommitId | None:
    return await scene.tags.read(scene.repository, tag)


async def test_T1_create_puts_if_absent(scene: Scene) -> None:
    await create_tag(scene, scene.input_ref)
    assert await read_tag(scene) == scene.input_ref


async def test_T2_create_refuses_existing(scene: Scene) -> None:
    await create_tag(scene, scene.input_ref)
    for commit in (scene.staged, scene.input_ref):
        with pytest.raises(errors.TagExistsError):
            await create_tag(scene, commit)
    assert await read_tag(scene) == scene.input_ref


async def test_T3_race_has_one_winner(scene: Scene) -> None:
    commits = [scene.input_ref, scene.staged] * 4
    answers = await asyncio.gather(
        *(create_tag(scene, commit) for commit in commits), return_exceptions=True
    )
    winners = [commit for commit, answer in zip(commits, answers, strict=True) if answer is None]
    assert [type(answer) for answer in answers if answer is not None] == [errors.TagExistsError] * 7
    assert winners == [await read_tag(scene)]


async def test_T4_absent_tag_reads_as_none(scene: Scene) -> None:
    assert await read_tag(scene) is None


async def test_T5_delete_is_idempotent(scene: Scene) -> None:
    await create_tag(scene, scene.input_ref)
    for _ in range(2):
        await scene.tags.delete(scene.repository, TAG)
    assert await read_tag(scene) is None
    await create_tag(scene, scene.staged)
    assert await read_tag(scene) == scene.staged


async def test_T6_list_is_paged_by_prefix(scene: Scene) -> None:
    wanted = [TagRecord(TagName(f"run-{number}"), scene.input_ref) for number in range(5)]
    for name in (*(record.name for record in wanted), TagName("running"), TagName("rum")):
        await create_tag(scene, scene.input_ref, name)
    found: list[TagRecord] = []
    listed = scene.tags.list_page
    async for page in pages(lambda after: listed(scene.repository, "run-", after, 2)):
        assert 0 < len(page.items) <= 2
        found.extend(page.items)
    assert found == wanted


async def test_T7_unknown_commit(scene: Scene) -> None:
    with pytest.raises(errors.ReferenceMissingError):
        await create_tag(scene, UNKNOWN)
    assert await read_tag(scene) is None


async def test_T8_broken_actions_block_creation(scene: Scene) -> None:
    branch = BranchName("broken")
    await scene.create_branch(branch, scene.input_ref)
    files = {"_lakefs_actions/README.md": b"not an action"}
    broken = await scene.under_test.commit_unchecked(scene.repository, branch, files)
    with pytest.raises(errors.BrokenActionsError):
        await create_tag(scene, broken)
    assert await read_tag(scene) is None


async def test_T9_tags_share_names_with_branches(scene: Scene) -> None:
    branch = BranchName("branch")
    await scene.create_branch(branch, scene.input_ref)
    for commit in (scene.staged, UNKNOWN):
        with pytest.raises(errors.ExistsError):
            await create_tag(scene, commit, TagName(branch))
    assert await read_tag(scene, TagName(branch)) is None


async def test_T10_lost_answer_is_unknown(scene: Scene) -> None:
    async with scene.under_test.losing_answers() as losing:
        with pytest.raises(errors.OutcomeUnknownError):
            await losing.tags.create(scene.repository, TAG, scene.input_ref)
        assert await read_tag(scene) == scene.input_ref
        with pytest.raises(errors.OutcomeUnknownError):
            await losing.tags.delete(scene.repository, TAG)
    assert await read_tag(scene) is None


async def test_T11_ids_of_commits_are_no_names(scene: Scene) -> None:
    for commit in (scene.staged, UNKNOWN):
        with pytest.raises(errors.ExistsError):
            await create_tag(scene, commit, TagName(scene.input_ref))
    assert await read_tag(scene, TagName(scene.input_ref)) is None


async def test_R1_read_names_the_default_branch(lakefs_under_test: LakeFSUnderTest) -> None:
    repository = await lakefs_under_test.create_repository()
    facts = await lakefs_under_test.repositories.read(repository)
    assert (facts.repository, facts.default_branch) == (repository, MAIN)
    assert facts.storage_namespace


async def test_R2_unknown_repository(lakefs_under_test: LakeFSUnderTest) -> None:
    with pytest.raises(errors.RepositoryMissingError):
        await lakefs_under_test.repositories.read(RepositoryId("nowhere"))


async def test_R3_read_only_is_said(lakefs_under_test: LakeFSUnderTest) -> None:
    for read_only in (True, False):
        repository = await lakefs_under_test.create_repository(read_only=read_only)
        assert (await lakefs_under_test.repositories.read(repository)).read_only is read_only


async def test_R4_pages_name_every_repository_once(lakefs_under_test: LakeFSUnderTest) -> None:
    first, *others = sorted([await lakefs_under_test.create_repository() for _ in range(3)])
    page = await lakefs_under_test.repositories.list_page(after=first, amount=1)
    assert (len(page.items), page.more) == (1, True)
    found: list[RepositoryId] = []
    while page.more and not set(others) <= set(found):
        page = await lakefs_under_test.repositories.list_page(
            after=found[-1] if found else first, amount=2
        )
        assert len(page.items) <= 2
        found += page.items
    assert set(others) <= set(found)
    assert found == sorted(set(found))
    assert first not in found
