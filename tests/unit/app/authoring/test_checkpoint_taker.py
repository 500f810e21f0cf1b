"""Taking copies: at most once per interval, whole or not at all, and never after the end."""

import os
import threading
from pathlib import Path

import pytest

from perago.app.authoring import checkpoint_copies
from perago.app.authoring.checkpoint_copies import claim, release
from perago.app.authoring.current_attempt import CancelSignal, CheckpointTaker, CopyTaken
from perago.domain.errors import CheckpointRefusedError
from perago.ports.task_body import CheckpointTerms


class Scene:
    """A taker on a clock of its own, and the directory beside the attempt's."""

    def __init__(self, folder: Path) -> None:
        self.beside = folder / "beside"
        self.source = folder / "state"
        self.source.mkdir()
        self.seconds = 0.0
        self.taken: list[CopyTaken] = []
        self.cancel = CancelSignal()
        terms = CheckpointTerms(str(self.beside / "out"), interval_seconds=60, bytes_max=1000)
        self.taker = CheckpointTaker(
            terms, self.taken.append, cancel=self.cancel, now=lambda: self.seconds
        )

    def keep(self, text: str) -> bool:
        """Write the state and ask for a checkpoint of it."""
        (self.source / "file").write_text(text)
        return self.taker(self.source, text)

    def claimed(self) -> str | None:
        """The text of the newest copy."""
        copy = claim(self.beside)
        return None if copy is None else (copy.directory / "file").read_text()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_interval_begins_with_the_copy_that_was_taken(scene: Scene) -> None:
    kept: list[bool] = []
    for seconds in (0, 30, 59.9, 60, 90, 120):
        scene.seconds = seconds
        kept.append(scene.keep("x"))
    assert kept == [True, False, False, True, False, True]
    assert scene.taken == [CopyTaken(1, 1)] * 3


def test_a_newer_copy_replaces_one_that_waits(scene: Scene) -> None:
    scene.keep("old")
    scene.seconds = 60
    scene.keep("new")
    assert scene.claimed() == "new"
    assert scene.claimed() is None


def test_a_copy_does_not_change_with_the_file_it_was_made_from(scene: Scene) -> None:
    scene.keep("before")
    with (scene.source / "file").open("r+") as file:  # the same inode, as a program that appends
        file.write("AFTER!")
    assert scene.claimed() == "before"


def test_a_copy_that_is_being_uploaded_stays_until_it_is_released(scene: Scene) -> None:
    scene.keep("first")
    first = claim(scene.beside)
    assert first is not None
    scene.seconds = 60
    scene.keep("second")
    assert (first.directory / "file").read_text() == "first"
    release(scene.beside)
    assert scene.claimed() == "second"


def test_a_disk_that_takes_no_copy_fails_no_function(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    monkeypatch.setattr("fcntl.ioctl", full)
    assert not scene.keep("x")
    assert "no checkpoint was taken: [Errno 28] No space left on device" in caplog.text
    monkeypatch.undo()
    assert scene.keep("x"), "the interval did not begin"


@pytest.mark.parametrize("over", ["closed", "cancelled"])
def test_what_outlives_the_attempt_makes_no_directory(scene: Scene, over: str) -> None:
    if over == "closed":
        scene.taker.close()
    else:
        scene.cancel.set()
    assert not scene.keep("x")
    assert not scene.beside.exists()


def test_threads_of_the_function_take_one_copy_between_them(scene: Scene) -> None:
    (scene.source / "file").write_text("x")
    threads = [threading.Thread(target=scene.taker, args=(scene.source, None)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(scene.taken) == 1


def test_a_single_file_keeps_its_name(scene: Scene) -> None:
    (scene.source / "model.bin").write_bytes(b"weights")
    assert scene.taker(scene.source / "model.bin", None)
    copy = claim(scene.beside)
    assert copy is not None
    assert [path.name for path in copy.directory.iterdir()] == ["model.bin"]


def test_pipes_are_no_files(scene: Scene) -> None:
    os.mkfifo(scene.source / "pipe")
    assert scene.keep("x")
    assert scene.taken == [CopyTaken(1, 1)]


def test_more_bytes_or_files_than_a_checkpoint_may_have_are_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        CheckpointRefusedError, match=r"has 1001 bytes, .*; set PERAGO_CHECKPOINT_SIZE=1001"
    ):
        scene.keep("x" * 1001)
    monkeypatch.setattr(checkpoint_copies, "FILES_MAX", 1)
    (scene.source / "second").write_text("")
    with pytest.raises(CheckpointRefusedError, match="has more than 1 files"):
        scene.keep("x")
    assert not scene.beside.exists()


def test_a_name_that_lakefs_cannot_hold_is_refused(scene: Scene) -> None:
    (scene.source / "back\\slash").write_text("")
    with pytest.raises(CheckpointRefusedError, match="contains a backslash; rename it"):
        scene.keep("x")
