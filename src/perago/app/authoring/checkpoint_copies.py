"""Copies of files for checkpoints, on the disk beside the directory of an attempt.

`survey` and `put_copy` are for the process of the task function, which may have no keys. `claim`
takes the newest copy away for the upload. Both move whole directories by renaming, so neither sees
half a copy of the other.

    out/making    a copy that is being made
    out/waiting   the newest finished copy; a newer one replaces it
    sending       the copy that is being uploaded; no task function touches it
    found         the checkpoint of an earlier attempt, as this one was given it
"""

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from perago.domain.checkpoints import FILES_MAX, NOTE_CHARACTERS_MAX
from perago.domain.errors import CheckpointRefusedError
from perago.domain.paths import ATTEMPT_MARKER, name_problem

OUT, SENDING, FOUND = "out", "sending", "found"
_MAKING, _WAITING, _REPLACED = "making", "waiting", "replaced"
_FILES, _ABOUT = "files", "about.json"
# A note has at most NOTE_CHARACTERS_MAX characters. A larger file is not one that we wrote.
_ABOUT_BYTES_MAX = 64 * 1024
_FICLONE = 0x40049409  # of <linux/fs.h>: Python has no name for it


@dataclass(frozen=True, slots=True)
class ClaimedCopy:
    """A copy that only its claimant touches from now on."""

    directory: Path
    note: object


def claim(beside: Path) -> ClaimedCopy | None:
    """Take the newest copy away from the task function; None when none waits."""
    sending = beside / SENDING
    release(beside)
    try:
        (beside / OUT / _WAITING).rename(sending)
    except FileNotFoundError:
        return None
    with (sending / _ABOUT).open("rb") as file:
        note: object = json.loads(file.read(_ABOUT_BYTES_MAX))
    return ClaimedCopy(sending / _FILES, note)


def release(beside: Path) -> None:
    """Remove the copy that was uploaded, or could not be."""
    _remove(beside / SENDING)


def make_empty(directory: Path) -> None:
    """Begin anew with a directory that holds nothing."""
    _remove(directory)
    directory.mkdir(parents=True, mode=0o700)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to copy."""

    path: Path
    name: str
    size: int


def note_text(note: object) -> str:
    """A note as JSON; raises for what is none, or is too long."""
    try:
        text = json.dumps(note, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointRefusedError(f"the note of a checkpoint must be JSON: {error}") from error
    if len(text) > NOTE_CHARACTERS_MAX:
        raise CheckpointRefusedError(
            f"the note of a checkpoint has {len(text)} characters as JSON, expected at most"
            f" {NOTE_CHARACTERS_MAX}; write it into a file of the checkpoint"
        )
    return text


def survey(source: Path, bytes_max: int) -> list[SourceFile]:
    """Every file to copy; raises before anything is copied."""
    if source.is_dir():
        found = list(islice(_files_below(source), FILES_MAX + 1))
    else:
        _refuse_name(source.name)
        found = [SourceFile(source, source.name, source.stat().st_size)]
    if len(found) > FILES_MAX:
        raise CheckpointRefusedError(
            f"{source} has more than {FILES_MAX} files, too many for a checkpoint;"
            " pack them into one archive"
        )
    size = sum(file.size for file in found)
    if size > bytes_max:
        raise CheckpointRefusedError(
            f"{source} has {size} bytes, expected at most {bytes_max} in a checkpoint;"
            f" set PERAGO_CHECKPOINT_SIZE={size} where the worker starts, or keep less"
        )
    return found


def _files_below(directory: Path) -> Iterator[SourceFile]:
    pending = [(directory, "")]
    while pending:
        folder, outer = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = outer + entry.name
                if entry.is_symlink():
                    raise CheckpointRefusedError(
                        f"{directory} has the symlink {name}; a checkpoint holds files only"
                    )
                if entry.is_dir():
                    pending.append((Path(entry.path), f"{name}/"))
                elif entry.name != ATTEMPT_MARKER:
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode):
                        _refuse_name(name)
                        yield SourceFile(Path(entry.path), name, status.st_size)


def _refuse_name(name: str) -> None:
    problem = name_problem(name)
    if problem is not None:
        raise CheckpointRefusedError(f"file {name!r} {problem}; rename it before the checkpoint")


def put_copy(files: list[SourceFile], about: str, out: Path) -> None:
    """Copy files to where the parent finds them; a copy that still waits there is replaced."""
    making, waiting, replaced = out / _MAKING, out / _WAITING, out / _REPLACED
    _remove(making)  # of a copy that an exception ended
    try:
        (making / _FILES).mkdir(parents=True)
        for file in files:
            target = making / _FILES / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy_file(file.path, target)
        (making / _ABOUT).write_text(about, encoding="utf-8")
        _remove(replaced)
        with suppress(FileNotFoundError):  # the parent has taken it away, or it is the first
            waiting.rename(replaced)
        making.rename(waiting)
    finally:
        _remove(making)
        _remove(replaced)


def _copy_file(source: Path, target: Path) -> None:
    """Share the blocks where the file system can, else copy the bytes.

    Never a hard link: the task function may write on into the same file, and the checkpoint would
    hold a part of what comes later.
    """
    with source.open("rb") as reader, target.open("xb") as writer:
        if not _share_blocks(reader, writer):
            shutil.copyfileobj(reader, writer, length=1024 * 1024)


def _share_blocks(reader: BinaryIO, writer: BinaryIO) -> bool:
    try:
        fcntl.ioctl(writer.fileno(), _FICLONE, reader.fileno())
    except OSError:
        return False
    return True


def _remove(directory: Path) -> None:
    """Remove a directory if it is there; whatever stays goes with the attempt."""
    shutil.rmtree(directory, ignore_errors=True)
