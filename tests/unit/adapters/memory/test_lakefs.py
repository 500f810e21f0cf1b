"""What the server does on its own during a merge, and large objects, which lie in files."""

from functools import partial
from pathlib import Path

import pytest
from tests import people
from tests.unit.adapters.memory.memory_worker import STAGING, MemoryWorker

from perago.adapters.memory.installations import RepositoryBuilder, lakefs_installation
from perago.adapters.memory.lakefs import FILE_BYTES_MIN, TRIES_MAX, MemoryLakeFS
from perago.adapters.memory.object_tree import Strategy
from perago.adapters.memory.repository_state import MAIN
from perago.adapters.memory.system import WorkerHandle
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.fence import FENCE_FILE
from perago.domain.outcome import (
    BrokenActions,
    DirtyTarget,
    HeadMoved,
    MergeConflict,
    Merged,
    MergeRefused,
    TooManyTries,
)
from perago.domain.paths import FENCE_PATH
from perago.ports.errors import BranchMissingError, RequestRefusedError
from perago.ports.lakefs import MergeRequest
from perago.ports.objects import ObjectUpload

LARGE = b"x" * FILE_BYTES_MIN
FENCE: dict[str, bytes | None] = {FENCE_PATH: FENCE_FILE}


def merge(worker: MemoryWorker, **metadata: str) -> object:
    return worker.lakefs.merge(worker.request(**metadata))


def test_a_lost_race_is_tried_again_on_the_new_head() -> None:
    worker = MemoryWorker()
    worker.lakefs.merge_interruptions.append(lambda: worker.repository.commit({"h": b"human"}))
    answer = merge(worker)
    assert isinstance(answer, Merged)
    newest, human, *_ = worker.repository.history()
    assert (newest.commit, newest.parents) == (answer.commit, (human.commit,))
    assert set(worker.repository.files()) == {"added", "h", "kept"}


def test_the_fence_runs_again_on_every_try() -> None:
    worker = MemoryWorker(FENCE)
    worker.lakefs.merge_interruptions.append(lambda: worker.repository.commit({"h": b"human"}))
    answer = merge(worker, **{EXPECTED_HEAD: worker.input_ref})
    assert isinstance(answer, HeadMoved)
    assert answer.text.rstrip().endswith(f"perago.head_moved {worker.input_ref} {worker.head}")
    assert "added" not in worker.repository.files()


def test_a_lost_race_can_show_as_a_conflict_before_the_fence_is_asked() -> None:
    worker = MemoryWorker(FENCE)
    worker.lakefs.merge_interruptions.append(lambda: worker.repository.commit({"added": b"h"}))
    assert isinstance(merge(worker, **{EXPECTED_HEAD: worker.input_ref}), MergeConflict)


def test_the_server_gives_up_after_its_own_tries() -> None:
    worker = MemoryWorker()
    for number in range(TRIES_MAX):
        worker.lakefs.merge_interruptions.append(
            partial(worker.repository.commit, {f"{number}": b"h"})
        )
    assert isinstance(merge(worker), TooManyTries)
    assert "added" not in worker.repository.files()


def test_a_write_during_a_merge_stays_uncommitted() -> None:
    worker = MemoryWorker()
    worker.lakefs.merge_interruptions.append(lambda: worker.repository.write("late", b"late"))
    assert isinstance(merge(worker), Merged)
    assert "late" not in worker.repository.files(f"{MAIN}@")
    assert "late" in worker.repository.files()
    assert isinstance(merge(worker), DirtyTarget)


def test_a_branch_deleted_during_a_merge_is_missing() -> None:
    worker = MemoryWorker()
    target = worker.repository.branch("target")
    worker.lakefs.merge_interruptions.append(lambda: worker.repository.delete_branch(target))
    request = MergeRequest(worker.repository.id, worker.staged, target, "publish")
    with pytest.raises(BranchMissingError):
        worker.lakefs.merge(request)


def test_with_actions_switched_off_nothing_is_checked() -> None:
    worker = MemoryWorker(FENCE)
    worker.lakefs.actions_enabled = False
    assert isinstance(merge(worker, **{EXPECTED_HEAD: "0" * 64}), Merged)
    assert isinstance(merge(worker, **{EXPECTED_HEAD: "0" * 64}), Merged)


def test_a_read_only_repository_refuses() -> None:
    worker = MemoryWorker()
    worker.repository.make_read_only()
    assert isinstance(merge(worker), MergeRefused)


def test_broken_action_files_of_the_target_do_not_matter() -> None:
    worker = MemoryWorker()
    broken: dict[str, bytes | None] = {"_lakefs_actions/bad.yaml": b"{not yaml"}
    worker.repository.commit(broken, unchecked=True)
    assert isinstance(merge(worker), Merged)
    worker.repository.commit(broken, STAGING, unchecked=True)
    answer = worker.lakefs.merge(worker.request(STAGING))
    assert isinstance(answer, BrokenActions)


@pytest.mark.parametrize(
    ("strategy", "content"),
    [(Strategy.SOURCE_WINS, b"theirs"), (Strategy.TARGET_WINS, b"ours")],
)
def test_a_strategy_settles_a_conflict(strategy: Strategy, content: bytes) -> None:
    repository = MemoryWorker().repository
    repository.commit({"both": b"theirs"}, STAGING)
    repository.commit({"both": b"ours"})
    with pytest.raises(RequestRefusedError, match="both"):
        people.merge(repository, STAGING)
    people.merge(repository, STAGING, strategy=strategy)
    assert repository.files()["both"] == content
    assert repository.head().metadata[".lakefs.merge.strategy"] == strategy


@pytest.mark.parametrize(
    ("base", "source", "target", "merged"),
    [
        ("1", "1", "2", "2"),
        ("1", "2", "1", "2"),
        ("1", "2", "2", "2"),
        ("1", "2", "3", "conflict"),
        ("1", "-", "1", "-"),
        ("1", "1", "-", "-"),
        ("1", "-", "-", "-"),
        ("1", "-", "2", "conflict"),
        ("1", "2", "-", "conflict"),
        ("-", "1", "-", "1"),
        ("-", "-", "1", "1"),
        ("-", "1", "1", "1"),
        ("-", "1", "2", "conflict"),
    ],
)
def test_the_table_of_one_object(base: str, source: str, target: str, merged: str) -> None:
    repository = MemoryWorker().repository

    def put(content: str, branch: str) -> None:
        one = None if content == "-" else content.encode()
        repository.commit({"object": one, f"{len(repository.history(branch))}": b""}, branch)

    put(base, MAIN)
    repository.branch("source")
    put(source, "source")
    put(target, MAIN)
    if merged == "conflict":
        with pytest.raises(RequestRefusedError, match="object"):
            people.merge(repository, "source")
        return
    people.merge(repository, "source")
    found = repository.files().get("object", b"-")
    assert found.decode() == merged


def test_the_base_is_the_best_common_ancestor() -> None:
    repository = MemoryWorker().repository
    repository.branch("side")
    repository.commit({"x": b"1"}, "side")
    people.merge(repository, "side")
    repository.commit({"x": b"2"})
    repository.commit({"y": b"1"}, "side")
    people.merge(repository, "side")
    assert repository.files()["x"] == b"2"
    assert repository.files()["y"] == b"1"


def test_a_squashed_branch_conflicts_with_its_own_next_change() -> None:
    repository = MemoryWorker().repository
    people.merge(repository, STAGING, squash=True)
    repository.commit({"added": b"changed again"}, STAGING)
    with pytest.raises(RequestRefusedError, match="added"):
        people.merge(repository, STAGING, squash=True)


async def test_a_large_upload_is_kept_as_it_was_when_it_left(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    lakefs = MemoryLakeFS(files=files)
    repository = RepositoryBuilder(lakefs, "repo")
    objects = lakefs_installation(lakefs, WorkerHandle()).objects
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(LARGE)

    entry = await objects.upload(repository.id, MAIN, ObjectUpload("a", source))
    source.write_bytes(b"other")
    await objects.download(repository.id, MAIN, "a", target)

    assert entry.size == FILE_BYTES_MIN
    assert target.read_bytes() == LARGE
    assert await objects.read(repository.id, MAIN, "a") == LARGE
    assert len(list(files.iterdir())) == 1


async def test_a_large_object_in_a_file_equals_the_same_bytes_in_memory(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(LARGE)
    repository = RepositoryBuilder(MemoryLakeFS(), "repo")
    repository.commit({"a": LARGE})
    base = repository.head().commit
    repository.write("a", source)
    objects = lakefs_installation(repository.lakefs, WorkerHandle())

    page = await objects.commits.uncommitted_page(repository.id, MAIN)

    assert page.items == ()
    assert repository.files(base) == {"a": LARGE}
