"""Laws of perago.ports.lakefs."""

from collections.abc import Iterable, Mapping
from typing import final

import pytest

from perago.domain.lakefs import BranchName, CommitId, FirstParentWalk
from perago.domain.outcome import Merged
from perago.ports import errors
from perago.ports.asking import pages
from perago.ports.lakefs import Change, ChangeKind, CommitRequest, MergeRequest
from perago.ports.objects import Page
from perago.testing.contract.lakefs_under_test import (
    MAIN,
    UNKNOWN,
    WALK_PAGE,
    LakeFSUnderTest,
    Scene,
)

SIDE = BranchName("side")
WALK_MAX = 1024  # more than any history here has, so that only the goal ends a walk
BROKEN_PATH = "_lakefs_actions/broken.yaml"  # lakeFS parses every .yaml of this folder at a commit


@final
class CommitsScene(Scene):
    """The scene of the branches, and what is asked of commits."""

    async def put(self, path: str, content: bytes, branch: BranchName = MAIN) -> None:
        """Leave an object uncommitted."""
        await self.under_test.write(self.repository, branch, path, content)

    def commit_request(
        self,
        branch: BranchName = MAIN,
        *,
        allow_empty: bool = False,
        metarange: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> CommitRequest:
        """A commit of what is staged."""
        return CommitRequest(
            self.repository, branch, "for humans", metadata or {}, allow_empty, metarange
        )

    async def walk(self, stop_at: CommitId | None, commits_max: int = WALK_MAX) -> FirstParentWalk:
        """Walk down from main."""
        return await self.commits.first_parents(
            self.repository, MAIN, stop_at, commits_max=commits_max
        )

    async def diff(self, left: CommitId, right: CommitId, prefix: str = "") -> Page[Change]:
        """The first page of differences."""
        return await self.commits.diff_page(self.repository, left, right, prefix=prefix)


@pytest.fixture
async def scene(lakefs_under_test: LakeFSUnderTest) -> CommitsScene:
    return await CommitsScene.build(lakefs_under_test, {"old": b"old"})


def described(changes: Iterable[Change]) -> list[tuple[str, ChangeKind]]:
    """Paths with what happened to them; that the objects themselves come along is C12's."""
    return [(change.path, change.kind) for change in changes]


def added(*paths: str) -> list[tuple[str, ChangeKind]]:
    return [(path, ChangeKind.ADDED) for path in paths]


async def test_C1_commit_has_the_branch_head_as_parent(scene: CommitsScene) -> None:
    await scene.put("new", b"new")
    metadata = {"perago.phase": "try", "empty": ""}
    commit = await scene.commits.commit(scene.commit_request(metadata=metadata))
    head = await scene.record()
    assert (head.commit, head.parents, head.message) == (commit, (scene.input_ref,), "for humans")
    assert head.metadata == metadata


async def test_C2_empty_commit_is_refused(scene: CommitsScene) -> None:
    with pytest.raises(errors.NothingToCommitError):
        await scene.commits.commit(scene.commit_request())
    assert await scene.head() == scene.input_ref


async def test_C3_empty_commit_when_allowed(scene: CommitsScene) -> None:
    before = await scene.read(scene.input_ref)
    commit = await scene.commits.commit(scene.commit_request(allow_empty=True))
    empty = await scene.read(commit)
    assert empty.parents == (scene.input_ref,)
    assert empty.metarange == before.metarange
    assert (await scene.diff(scene.input_ref, commit)).items == ()


async def test_C4_exact_tree(scene: CommitsScene) -> None:
    abandoned = await scene.commit_files({"abandoned": b"abandoned", "old": None})
    wanted = await scene.read(scene.input_ref)
    await scene.create_branch(SIDE, abandoned)
    request = scene.commit_request(SIDE, metarange=wanted.metarange)
    exact = await scene.read(await scene.commits.commit(request))
    assert exact.parents == (abandoned,)
    assert exact.metarange == wanted.metarange
    assert (await scene.diff(scene.input_ref, exact.commit)).items == ()


async def test_C5_read_by_id(scene: CommitsScene) -> None:
    await scene.put("new", b"new")
    metadata = {"perago.phase": "try"}
    commit = await scene.commits.commit(scene.commit_request(metadata=metadata))
    record = await scene.read(commit)
    found = record.commit, record.parents, record.message
    assert found == (commit, (scene.input_ref,), "for humans")
    assert record.metadata == metadata
    before = await scene.read(scene.input_ref)
    assert record.metarange not in {"", before.metarange}
    assert record.created_at >= before.created_at > 0
    for spelling in (MAIN, f"{MAIN}~0", f"{commit}^0"):
        assert await scene.read(spelling) == record
    for spelling in (f"{MAIN}~1", f"{commit}^1"):
        assert await scene.read(spelling) == before


@pytest.mark.parametrize("reference", [UNKNOWN, "nowhere", f"{MAIN}~7", f"{MAIN}$"])
async def test_C6_unknown_commit(scene: CommitsScene, reference: str) -> None:
    with pytest.raises(errors.ReferenceMissingError):
        await scene.read(reference)
    with pytest.raises(errors.ReferenceMissingError):
        await scene.read(f"{scene.input_ref}@")


async def test_C7_walk_ends_at_the_asked_commit(scene: CommitsScene) -> None:
    middle = await scene.commit_files({"a": b"a"})
    newest = await scene.commit_files({"b": b"b"})
    walk = await scene.walk(scene.input_ref)
    assert walk.reached
    assert not walk.truncated
    assert [record.commit for record in walk.commits] == [newest, middle, scene.input_ref]
    assert walk.commits[1] == await scene.read(middle)
    alone = await scene.walk(newest)
    assert ([record.commit for record in alone.commits], alone.reached) == ([newest], True)


async def test_C8_walk_off_the_chain_is_not_reached(scene: CommitsScene) -> None:
    await scene.create_branch(SIDE, scene.input_ref)
    side = await scene.commit_files({"side": b"side"}, SIDE)
    await scene.commit_files({"main": b"main"})
    request = MergeRequest(scene.repository, SIDE, MAIN, "by hand", squash=False)
    merged = await scene.branches.merge(request)
    assert isinstance(merged, Merged)
    walk = await scene.walk(side)
    assert not walk.reached
    assert not walk.truncated
    assert walk.head.commit == merged.commit
    assert side not in {record.commit for record in walk.commits}
    assert walk.commits[-1].parents == ()


async def test_C9_walk_is_bounded(scene: CommitsScene) -> None:
    made = [scene.input_ref]
    made.extend([await scene.commit_files({f"{number}": b"x"}) for number in range(3)])
    cut = await scene.walk(scene.input_ref, commits_max=3)
    assert (cut.reached, cut.truncated) == (False, True)
    assert [record.commit for record in cut.commits] == list(reversed(made))[:3]
    whole = await scene.walk(scene.input_ref, commits_max=4)
    assert (whole.reached, whole.truncated) == (True, False)


async def test_C10_walk_crosses_pages(scene: CommitsScene) -> None:
    made = [scene.input_ref]
    made.extend([await scene.commit_files({}) for _ in range(2 * WALK_PAGE + 5)])
    walk = await scene.walk(scene.input_ref, commits_max=3 * WALK_PAGE)
    assert walk.reached
    assert [record.commit for record in walk.commits] == list(reversed(made))


async def test_C11_walk_to_an_unknown_commit(scene: CommitsScene) -> None:
    with pytest.raises(errors.ReferenceMissingError):
        await scene.walk(UNKNOWN)


async def test_C12_diff_names_what_differs(scene: CommitsScene) -> None:
    right = await scene.commit_files({"new": b"new", "kept": b"changed", "old": None})
    page = await scene.diff(scene.input_ref, right)
    assert described(page.items) == [
        ("kept", ChangeKind.CHANGED),
        ("new", ChangeKind.ADDED),
        ("old", ChangeKind.REMOVED),
    ]
    listing = await scene.objects.list_page(scene.repository, right, prefix="")
    assert [change.entry for change in page.items] == [*listing.items, None]
    assert not page.more


async def test_C13_diff_respects_the_prefix(scene: CommitsScene) -> None:
    right = await scene.commit_files(
        {"data": b"1", "data/a": b"1", "data/b/c": b"1", "data-2/a": b"1", "data2": b"1"}
    )
    page = await scene.diff(scene.input_ref, right, "data/")
    assert described(page.items) == added("data/a", "data/b/c")


async def test_C14_diff_is_directed(scene: CommitsScene) -> None:
    right = await scene.commit_files({"new": b"new", "old": None})
    page = await scene.diff(right, scene.input_ref)
    assert described(page.items) == [("new", ChangeKind.REMOVED), ("old", ChangeKind.ADDED)]


async def test_C15_diff_is_paged(scene: CommitsScene) -> None:
    paths = [f"data/{number}" for number in range(7)]
    right = await scene.commit_files(dict.fromkeys(paths, b"x"))
    found: list[Change] = []
    trees = scene.repository, scene.input_ref, right
    diff_page = scene.commits.diff_page
    listed = pages(lambda after: diff_page(*trees, prefix="data/", after=after, amount=3))
    async for page in listed:
        assert 0 < len(page.items) <= 3
        found.extend(page.items)
    assert described(found) == added(*paths)


async def test_C16_uncommitted_names_what_is_staged(scene: CommitsScene) -> None:
    await scene.put("new", b"new")
    await scene.put("sub/new", b"new")
    await scene.put("kept", b"changed")
    await scene.objects.delete_many(scene.repository, MAIN, ["old"])
    uncommitted = scene.commits.uncommitted_page
    page = await uncommitted(scene.repository, MAIN)
    assert described(page.items) == [
        ("kept", ChangeKind.CHANGED),
        ("new", ChangeKind.ADDED),
        ("old", ChangeKind.REMOVED),
        ("sub/new", ChangeKind.ADDED),
    ]
    under = await uncommitted(scene.repository, MAIN, prefix="sub/")
    assert described(under.items) == added("sub/new")
    first = await uncommitted(scene.repository, MAIN, amount=3)
    rest = await uncommitted(scene.repository, MAIN, after=first.items[-1].path, amount=3)
    assert (first.more, first.items + rest.items, rest.more) == (True, page.items, False)
    await scene.commits.commit(scene.commit_request())
    assert (await uncommitted(scene.repository, MAIN)).items == ()


async def test_C17_same_bytes_are_not_a_change(scene: CommitsScene) -> None:
    await scene.put("kept", b"kept")
    with pytest.raises(errors.NothingToCommitError):
        await scene.commits.commit(scene.commit_request())
    assert await scene.head() == scene.input_ref
    commit = await scene.commits.commit(scene.commit_request(allow_empty=True))
    assert (await scene.diff(scene.input_ref, commit)).items == ()


async def test_C18_broken_action_file_is_refused(scene: CommitsScene) -> None:
    await scene.create_branch(SIDE, scene.input_ref)
    await scene.put(BROKEN_PATH, b"{not yaml", SIDE)
    with pytest.raises(errors.BrokenActionsError):
        await scene.commits.commit(scene.commit_request(SIDE))
    head = await scene.record(SIDE)
    assert head.commit == scene.input_ref


async def test_C19_history_needs_no_goal(scene: CommitsScene) -> None:
    made = [scene.input_ref]
    made.extend([await scene.commit_files({}) for _ in range(WALK_PAGE + 3)])
    newest = await scene.walk(None, commits_max=WALK_PAGE + 1)
    assert (newest.reached, newest.truncated) == (False, True)
    (below,) = newest.commits[-1].parents
    rest = await scene.commits.first_parents(scene.repository, below, None, commits_max=WALK_MAX)
    assert (rest.reached, rest.truncated) == (False, False)
    root = rest.commits[-1]
    assert root.parents == ()
    history = [record.commit for record in newest.commits + rest.commits]
    assert history == [*reversed(made), root.commit]


async def test_C20_lost_answer_is_unknown(scene: CommitsScene) -> None:
    await scene.put("new", b"new")
    async with scene.under_test.losing_answers() as losing:
        with pytest.raises(errors.OutcomeUnknownError):
            await losing.commits.commit(scene.commit_request())
    head = await scene.record()
    assert (head.parents, head.message) == ((scene.input_ref,), "for humans")
