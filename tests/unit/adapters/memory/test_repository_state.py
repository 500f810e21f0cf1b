"""References, staging and commit addresses of the in-memory lakeFS."""

import pytest
from tests.people import CACHED_SECONDS, cherry_pick, discard_uncommitted, merge, revert
from tests.unit.adapters.memory.memory_worker import STAGING, MemoryWorker

from perago.adapters.memory.installations import (
    RepositoryBuilder,
    lakefs_installation,
)
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.repository_state import MAIN
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.domain.lakefs import TagName
from perago.domain.outcome import Relocated, RelocationRefused
from perago.ports.errors import (
    DirtyBranchError,
    ReferenceMissingError,
    RequestRefusedError,
)
from perago.ports.lakefs import CommitRequest

REFUSE_COMMITS = b"""\
name: frozen
on:
  pre-commit:
hooks:
  - {id: frozen, type: lua, properties: {script: "error('frozen')"}}
"""


def test_relative_expressions_walk_parents() -> None:
    repository = MemoryWorker().repository
    root, first = (record.commit for record in reversed(repository.history()))
    side = repository.head(STAGING).commit
    second = repository.commit({"a": b"a"})
    merged = merge(repository, STAGING)
    lakefs = repository.lakefs.repository(repository.id)
    for expression, commit in {
        "main": merged,
        "main@": merged,
        "main~": second,
        "main^": second,
        "main^1": second,
        "main^2": side,
        "main^2~1": first,
        "main~2": first,
        "main~~": first,
        "main^^^": root,
        "main~0": merged,
        "main^0": merged,
        merged: merged,
        merged[:12]: merged,
        f"{merged}^2": side,
    }.items():
        assert lakefs.commit_of(expression).id == commit, expression
    for expression in ("main~9", "main^3", "main~x", "main@1", "~1", "", "nothing", merged[:0]):
        with pytest.raises(ReferenceMissingError):
            lakefs.commit_of(expression)


def test_a_tag_is_a_reference() -> None:
    repository = MemoryWorker().repository
    repository.tag("v1.0", f"{MAIN}~1")
    state = repository.lakefs.repository(repository.id)
    assert state.commit_of("v1.0").id == state.tags[TagName("v1.0")]
    assert state.commit_of("v1.0~0").id == repository.history()[1].commit


def test_a_relocation_is_relative_to_the_head_of_its_moment() -> None:
    worker = MemoryWorker()
    human = worker.repository.commit({"human": b"human"})
    worker.repository.commit({"more": b"more"})
    moved = worker.lakefs.relocate_branch(worker.repository.id, MAIN, "main~1")
    assert (moved, worker.head) == (Relocated(), human)


def test_a_refused_commit_seals_the_branch_against_relocation() -> None:
    worker = MemoryWorker()
    repository = worker.repository
    repository.commit({"_lakefs_actions/frozen.yaml": REFUSE_COMMITS}, unchecked=True)
    repository.write("open", b"open")
    target = worker.input_ref
    assert worker.lakefs.relocate_branch(repository.id, MAIN, f"{MAIN}~0") == Relocated()
    with pytest.raises(RequestRefusedError, match="frozen"):
        repository.commit({})
    refused = worker.lakefs.relocate_branch(repository.id, MAIN, target)
    assert isinstance(refused, RelocationRefused)
    assert not refused.protected
    discard_uncommitted(repository)
    assert worker.lakefs.relocate_branch(repository.id, MAIN, target) == Relocated()


def test_a_write_after_a_refused_commit_covers_the_sealed_one() -> None:
    repository = MemoryWorker().repository
    repository.commit({"_lakefs_actions/frozen.yaml": REFUSE_COMMITS}, unchecked=True)
    repository.write("twice", b"first")
    repository.write("gone", b"first")
    with pytest.raises(RequestRefusedError, match="frozen"):
        repository.commit({})
    repository.write("twice", b"second")
    repository.write("gone", None)
    with pytest.raises(RequestRefusedError, match="frozen"):
        repository.commit({})
    assert repository.files()["twice"] == b"second"
    repository.commit({"_lakefs_actions/frozen.yaml": None}, unchecked=True)
    committed = repository.files(f"{MAIN}@")
    assert committed["twice"] == b"second"
    assert "gone" not in committed


def test_an_exact_tree_needs_a_clean_branch() -> None:
    worker = MemoryWorker()
    worker.repository.write("dirt", b"dirt")
    metarange = worker.repository.head(STAGING).metarange
    request = CommitRequest(worker.repository.id, MAIN, "exact", {}, source_metarange=metarange)
    with pytest.raises(DirtyBranchError):
        worker.lakefs.commit(request)


def test_the_root_commit_has_no_metarange_to_take() -> None:
    worker = MemoryWorker()
    (*_, root) = worker.repository.history()
    assert root.metarange == ""
    request = CommitRequest(worker.repository.id, MAIN, "exact", {}, source_metarange="")
    with pytest.raises(RequestRefusedError):
        worker.lakefs.commit(request)


def test_commits_that_differ_in_nothing_are_one_commit() -> None:
    clock = VirtualClock()
    repository = RepositoryBuilder(MemoryLakeFS(clock), "repository")
    repository.branch("one")
    repository.branch("two")
    assert repository.commit({}, "one") == repository.commit({}, "two")
    clock.advance(1)
    repository.branch("three")
    assert repository.commit({}, "three") != repository.head("one").commit


def test_bytes_written_twice_are_equal_and_not_the_same() -> None:
    repository = RepositoryBuilder(MemoryLakeFS(), "repository")
    repository.branch("one")
    repository.branch("two")
    repository.commit({"a": b"a"}, "one")
    repository.commit({"a": b"a"}, "two")
    assert repository.head("one").metarange != repository.head("two").metarange
    assert repository.files("one") == repository.files("two")
    merge(repository, "one")
    merge(repository, "two")
    assert repository.files() == {"a": b"a"}


def test_a_revert_takes_back_and_a_cherry_pick_copies_metadata() -> None:
    worker = MemoryWorker()
    repository = worker.repository
    told = {"perago.phase": "confirm"}
    published = merge(repository, STAGING, squash=True, metadata=told)
    repository.commit({"later": b"later"})
    reverted = revert(repository, published)
    assert repository.head().message == f"Revert {published}"
    with pytest.raises(RequestRefusedError, match="no changes"):
        revert(repository, published)
    assert repository.head().commit == reverted
    assert set(repository.files()) == {"kept", "later"}
    picked = cherry_pick(repository, published)
    assert set(repository.files()) == {"added", "kept", "later"}
    record = repository.history()[0]
    assert record.commit == picked
    assert told.items() <= record.metadata.items()
    assert record.metadata["cherry-pick-origin"] == published


def test_what_people_repeat_needs_a_clean_branch_and_one_parent() -> None:
    repository = MemoryWorker().repository
    merged = merge(repository, STAGING)
    for repeat in (revert, cherry_pick):
        with pytest.raises(RequestRefusedError, match="has 2 parents"):
            repeat(repository, merged)
    revert(repository, merged, parent=1)
    repository.write("a", b"a")
    with pytest.raises(DirtyBranchError):
        revert(repository, merged, parent=1)


def test_of_several_merge_bases_the_one_that_the_older_side_took_first_counts() -> None:
    repository = MemoryWorker().repository
    graph = repository.lakefs.repository(repository.id).graph
    for side in ("left", "right"):
        repository.branch(side)
    one, other = (repository.commit({side: b"1"}, side) for side in ("left", "right"))
    older = merge(repository, other, "left")
    newer = merge(repository, one, "right")

    assert graph.merge_base(older, newer).id == graph.merge_base(newer, older).id == one


def test_what_leaves_the_first_commit_as_it_is_has_a_tree_with_a_name() -> None:
    repository = RepositoryBuilder(MemoryLakeFS(), "empty")
    repository.branch("side")
    repository.commit({"a": b"a"})
    cherry_pick(repository, repository.commit({"a": None}), "side")

    assert repository.files("side") == {}
    assert repository.head("side").metarange


async def test_a_picked_commit_is_not_found_by_its_whole_id_for_ten_minutes() -> None:
    """Seen on lakeFS 1.86: the copy's metadata is written into the cached original."""
    clock = VirtualClock()
    repository = RepositoryBuilder(MemoryLakeFS(clock), "repo")
    commits = lakefs_installation(repository.lakefs, WorkerHandle()).commits
    given = repository.head().commit
    original = repository.commit({"a": b"a"}, metadata={"told": "once"})
    copy = cherry_pick(repository, original)
    for reference in (original, f"{original}~1"):
        with pytest.raises(ReferenceMissingError, match="commit not found"):
            await commits.read(repository.id, reference)
    by_prefix = await commits.read(repository.id, original[:12])
    assert by_prefix.metadata["cherry-pick-origin"] == original
    walk = await commits.first_parents(repository.id, MAIN, original, commits_max=9)
    assert [record.commit for record in walk.commits] == [copy, original]
    clock.advance(CACHED_SECONDS)
    assert (await commits.read(repository.id, original)).metadata == {"told": "once"}
    assert (await commits.read(repository.id, f"{original}~1")).commit == given
