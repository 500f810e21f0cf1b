"""Laws of perago.ports.lakefs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

from perago.domain.logical_execution import BranchName, CommitId, FirstParentWalk, RepositoryId
from perago.domain.outcome import Merged
from perago.ports.errors import (
    BrokenActionsError,
    NothingToCommitError,
    OutcomeUnknownError,
    ReferenceMissingError,
)
from perago.ports.lakefs import Change, ChangeKind, ChangePage, CommitRequest, MergeRequest
from perago.testing.contract.lakefs_under_test import MAIN, WALK_PAGE, LakeFSUnderTest

SIDE = BranchName("side")
UNKNOWN = CommitId("f" * 64)  # the form of a commit id, and the id of no commit
WALK_MAX = 1024  # more than any history here has, so that only the goal ends a walk
BROKEN_PATH = "_lakefs_actions/broken.yaml"  # lakeFS parses every .yaml of this folder at a commit


@dataclass(frozen=True, slots=True)
class Scene:
    """A repository whose main has one commit above the root."""

    under_test: LakeFSUnderTest
    repository: RepositoryId
    start: CommitId

    async def put(self, path: str, content: bytes, branch: BranchName = MAIN) -> None:
        """Leave an object uncommitted."""
        await self.under_test.write(self.repository, branch, path, content)

    async def commit_files(
        self, files: Mapping[str, bytes | None], branch: BranchName = MAIN
    ) -> CommitId:
        """Commit files."""
        return await self.under_test.commit_files(self.repository, branch, files)

    def request(
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
        return await self.under_test.commits.first_parents(
            self.repository, MAIN, stop_at, commits_max=commits_max
        )

    async def diff(self, left: CommitId, right: CommitId, prefix: str = "") -> ChangePage:
        """The first page of differences."""
        return await self.under_test.commits.diff_page(self.repository, left, right, prefix=prefix)

    async def head(self) -> CommitId:
        """The head of main."""
        return (await self.under_test.branches.head(self.repository, MAIN)).commit


@pytest.fixture
async def scene(lakefs_under_test: LakeFSUnderTest) -> Scene:
    repository = await lakefs_under_test.create_repository()
    start = await lakefs_under_test.commit_files(repository, MAIN, {"kept": b"kept", "old": b"old"})
    return Scene(lakefs_under_test, repository, start)


def described(changes: Iterable[Change]) -> list[tuple[str, ChangeKind]]:
    """Paths with what happened to them; that the objects themselves come along is C12's."""
    return [(change.path, change.kind) for change in changes]


def added(*paths: str) -> list[tuple[str, ChangeKind]]:
    return [(path, ChangeKind.ADDED) for path in paths]


async def test_C1_commit_has_the_branch_head_as_parent(scene: Scene) -> None:
    await scene.put("new", b"new")
    metadata = {"perago.phase": "try", "empty": ""}
    commit = await scene.under_test.commits.commit(scene.request(metadata=metadata))
    head = await scene.under_test.branches.head(scene.repository, MAIN)
    assert (head.commit, head.parents, head.message) == (commit, (scene.start,), "for humans")
    assert head.metadata == metadata


async def test_C2_empty_commit_is_refused(scene: Scene) -> None:
    with pytest.raises(NothingToCommitError):
        await scene.under_test.commits.commit(scene.request())
    assert await scene.head() == scene.start


async def test_C3_empty_commit_when_allowed(scene: Scene) -> None:
    before = await scene.under_test.commits.read(scene.repository, scene.start)
    commit = await scene.under_test.commits.commit(scene.request(allow_empty=True))
    empty = await scene.under_test.commits.read(scene.repository, commit)
    assert empty.parents == (scene.start,)
    assert empty.metarange == before.metarange
    assert (await scene.diff(scene.start, commit)).changes == ()


async def test_C4_exact_tree(scene: Scene) -> None:
    abandoned = await scene.commit_files({"abandoned": b"abandoned", "old": None})
    wanted = await scene.under_test.commits.read(scene.repository, scene.start)
    await scene.under_test.branches.create(scene.repository, SIDE, abandoned)
    request = scene.request(SIDE, metarange=wanted.metarange)
    exact = await scene.under_test.commits.read(
        scene.repository, await scene.under_test.commits.commit(request)
    )
    assert exact.parents == (abandoned,)
    assert exact.metarange == wanted.metarange
    assert (await scene.diff(scene.start, exact.commit)).changes == ()


async def test_C5_read_by_id(scene: Scene) -> None:
    await scene.put("new", b"new")
    metadata = {"perago.phase": "try"}
    commit = await scene.under_test.commits.commit(scene.request(metadata=metadata))
    record = await scene.under_test.commits.read(scene.repository, commit)
    assert (record.commit, record.parents, record.message) == (
        commit,
        (scene.start,),
        "for humans",
    )
    assert record.metadata == metadata
    before = await scene.under_test.commits.read(scene.repository, scene.start)
    assert record.metarange not in {"", before.metarange}
    assert record.created_at >= before.created_at > 0
    for spelling in (MAIN, f"{MAIN}~0", f"{commit}^0"):
        assert await scene.under_test.commits.read(scene.repository, spelling) == record
    for spelling in (f"{MAIN}~1", f"{commit}^1"):
        assert await scene.under_test.commits.read(scene.repository, spelling) == before


@pytest.mark.parametrize("reference", [UNKNOWN, "nowhere", f"{MAIN}~7", f"{MAIN}$"])
async def test_C6_unknown_commit(scene: Scene, reference: str) -> None:
    with pytest.raises(ReferenceMissingError):
        await scene.under_test.commits.read(scene.repository, reference)
    with pytest.raises(ReferenceMissingError):
        await scene.under_test.commits.read(scene.repository, f"{scene.start}@")


async def test_C7_walk_ends_at_the_asked_commit(scene: Scene) -> None:
    middle = await scene.commit_files({"a": b"a"})
    newest = await scene.commit_files({"b": b"b"})
    walk = await scene.walk(scene.start)
    assert walk.reached
    assert not walk.truncated
    assert [record.commit for record in walk.commits] == [newest, middle, scene.start]
    assert walk.commits[1] == await scene.under_test.commits.read(scene.repository, middle)
    alone = await scene.walk(newest)
    assert ([record.commit for record in alone.commits], alone.reached) == ([newest], True)


async def test_C8_walk_off_the_chain_is_not_reached(scene: Scene) -> None:
    await scene.under_test.branches.create(scene.repository, SIDE, scene.start)
    side = await scene.commit_files({"side": b"side"}, SIDE)
    await scene.commit_files({"main": b"main"})
    request = MergeRequest(scene.repository, SIDE, MAIN, "by hand", squash=False)
    merged = await scene.under_test.branches.merge(request)
    assert isinstance(merged, Merged)
    walk = await scene.walk(side)
    assert not walk.reached
    assert not walk.truncated
    assert walk.head.commit == merged.commit
    assert side not in {record.commit for record in walk.commits}
    assert walk.commits[-1].parents == ()


async def test_C9_walk_is_bounded(scene: Scene) -> None:
    made = [scene.start]
    made.extend([await scene.commit_files({f"{number}": b"x"}) for number in range(3)])
    cut = await scene.walk(scene.start, commits_max=3)
    assert (cut.reached, cut.truncated) == (False, True)
    assert [record.commit for record in cut.commits] == list(reversed(made))[:3]
    whole = await scene.walk(scene.start, commits_max=4)
    assert (whole.reached, whole.truncated) == (True, False)


async def test_C10_walk_crosses_pages(scene: Scene) -> None:
    made = [scene.start]
    made.extend([await scene.commit_files({}) for _ in range(2 * WALK_PAGE + 5)])
    walk = await scene.walk(scene.start, commits_max=3 * WALK_PAGE)
    assert walk.reached
    assert [record.commit for record in walk.commits] == list(reversed(made))


async def test_C11_walk_to_an_unknown_commit(scene: Scene) -> None:
    with pytest.raises(ReferenceMissingError):
        await scene.walk(UNKNOWN)


async def test_C12_diff_names_what_differs(scene: Scene) -> None:
    right = await scene.commit_files({"new": b"new", "kept": b"changed", "old": None})
    page = await scene.diff(scene.start, right)
    assert described(page.changes) == [
        ("kept", ChangeKind.CHANGED),
        ("new", ChangeKind.ADDED),
        ("old", ChangeKind.REMOVED),
    ]
    listing = await scene.under_test.objects.list_page(scene.repository, right, prefix="")
    assert [change.entry for change in page.changes] == [*listing.entries, None]
    assert not page.more


async def test_C13_diff_respects_the_prefix(scene: Scene) -> None:
    right = await scene.commit_files(
        {"data": b"1", "data/a": b"1", "data/b/c": b"1", "data-2/a": b"1", "data2": b"1"}
    )
    page = await scene.diff(scene.start, right, "data/")
    assert described(page.changes) == added("data/a", "data/b/c")


async def test_C14_diff_is_directed(scene: Scene) -> None:
    right = await scene.commit_files({"new": b"new", "old": None})
    page = await scene.diff(right, scene.start)
    assert described(page.changes) == [("new", ChangeKind.REMOVED), ("old", ChangeKind.ADDED)]


async def test_C15_diff_is_paged(scene: Scene) -> None:
    paths = [f"data/{number}" for number in range(7)]
    right = await scene.commit_files(dict.fromkeys(paths, b"x"))
    found: list[Change] = []
    more = True
    while more:
        page = await scene.under_test.commits.diff_page(
            scene.repository,
            scene.start,
            right,
            prefix="data/",
            after=found[-1].path if found else "",
            amount=3,
        )
        assert 0 < len(page.changes) <= 3
        found.extend(page.changes)
        more = page.more
    assert described(found) == added(*paths)


async def test_C16_uncommitted_names_what_is_staged(scene: Scene) -> None:
    await scene.put("new", b"new")
    await scene.put("sub/new", b"new")
    await scene.put("kept", b"changed")
    await scene.under_test.objects.delete_many(scene.repository, MAIN, ["old"])
    uncommitted = scene.under_test.commits.uncommitted_page
    page = await uncommitted(scene.repository, MAIN)
    assert described(page.changes) == [
        ("kept", ChangeKind.CHANGED),
        ("new", ChangeKind.ADDED),
        ("old", ChangeKind.REMOVED),
        ("sub/new", ChangeKind.ADDED),
    ]
    under = await uncommitted(scene.repository, MAIN, prefix="sub/")
    assert described(under.changes) == added("sub/new")
    first = await uncommitted(scene.repository, MAIN, amount=3)
    rest = await uncommitted(scene.repository, MAIN, after=first.changes[-1].path, amount=3)
    assert (first.more, first.changes + rest.changes, rest.more) == (True, page.changes, False)
    await scene.under_test.commits.commit(scene.request())
    assert (await uncommitted(scene.repository, MAIN)).changes == ()


async def test_C17_same_bytes_are_not_a_change(scene: Scene) -> None:
    await scene.put("kept", b"kept")
    with pytest.raises(NothingToCommitError):
        await scene.under_test.commits.commit(scene.request())
    assert await scene.head() == scene.start
    commit = await scene.under_test.commits.commit(scene.request(allow_empty=True))
    assert (await scene.diff(scene.start, commit)).changes == ()


async def test_C18_broken_action_file_is_refused(scene: Scene) -> None:
    await scene.under_test.branches.create(scene.repository, SIDE, scene.start)
    await scene.put(BROKEN_PATH, b"{not yaml", SIDE)
    with pytest.raises(BrokenActionsError):
        await scene.under_test.commits.commit(scene.request(SIDE))
    head = await scene.under_test.branches.head(scene.repository, SIDE)
    assert head.commit == scene.start


async def test_C19_history_needs_no_goal(scene: Scene) -> None:
    made = [scene.start]
    made.extend([await scene.commit_files({}) for _ in range(WALK_PAGE + 3)])
    newest = await scene.walk(None, commits_max=WALK_PAGE + 1)
    assert (newest.reached, newest.truncated) == (False, True)
    (below,) = newest.commits[-1].parents
    rest = await scene.under_test.commits.first_parents(
        scene.repository, below, None, commits_max=WALK_MAX
    )
    assert (rest.reached, rest.truncated) == (False, False)
    root = rest.commits[-1]
    assert root.parents == ()
    history = [record.commit for record in newest.commits + rest.commits]
    assert history == [*reversed(made), root.commit]


async def test_C20_lost_answer_is_unknown(scene: Scene) -> None:
    await scene.put("new", b"new")
    async with scene.under_test.losing_answers() as losing:
        with pytest.raises(OutcomeUnknownError):
            await losing.commits.commit(scene.request())
    head = await scene.under_test.branches.head(scene.repository, MAIN)
    assert (head.parents, head.message) == ((scene.start,), "for humans")
