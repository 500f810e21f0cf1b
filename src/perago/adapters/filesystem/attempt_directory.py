"""Attempt directories on the local disk, the marker in each, and how one is removed.

`LocalAttemptDirectories` makes, checks, removes and finds them. The owner is known by a lock on a
record beside them (`locks.OwnerRecords`), because a process id may be given to another process.
The marker is `.perago-attempt.json`, a superset of 0.6.1's.
"""

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import final

from pydantic import TypeAdapter

from perago.adapters.filesystem.locks import OwnerRecords
from perago.domain.attempt import AttemptStatus, ExecutionId
from perago.domain.paths import ATTEMPT_MARKER
from perago.domain.retention import Owner
from perago.ports.errors import ExistsError, LocalDiskError, WorkspaceLostError, disk_errors
from perago.ports.system import Clock, Concurrency
from perago.ports.workspace import AttemptDirectories, AttemptMarker, Leftover, beside

# Without O_NOFOLLOW a link in the tree would lead the removal out of it.
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Two of these, two hashes and the words between them make 212 characters, and `.json` or `.lock`
# follow in the name of its record. Common file systems end at 255.
SEGMENT_LENGTH_MAX = 90
_NAME = re.compile(r"task_id=.+-exec=.+")
# The first line of a kept outcome, before its key: an attempt that looks for its own reads no more
# of the others.
OUTCOME_OF = "perago outcome of "


@dataclass(frozen=True, slots=True)
class StampedMarker:
    """A marker with what the machine adds: process, moment, and the directory's identity."""

    marker: AttemptMarker
    owner_pid: int
    started_at: datetime
    device: int = 0
    inode: int = 0


_STAMPED = TypeAdapter(StampedMarker)
_AS_IN_0_6_1 = {"workflow_id": "workflow_instance_id", "task_type": "task_def_name"}
_NOT_IN_0_6_1 = {"reference_name": "", "status": AttemptStatus.IN_PROGRESS, "owner_pid": 0}


def marker_text(stamped: StampedMarker) -> str:
    """Write a marker: all its fields side by side, as 0.6.1 does."""
    marker = stamped.marker
    fields = {**asdict(stamped), **asdict(marker), **asdict(marker.attempt)}
    del fields["marker"], fields["attempt"]
    fields |= {theirs: fields.pop(ours) for ours, theirs in _AS_IN_0_6_1.items()}
    fields["owner_token"] = marker.execution_id
    return json.dumps(fields, sort_keys=True, ensure_ascii=False, default=datetime.isoformat)


def read_marker(text: str) -> StampedMarker | None:
    """Read a marker, or None for what is not one; 0.6.1's markers lack the newer fields."""
    try:
        fields = {**_NOT_IN_0_6_1, **json.loads(text)}
        fields |= {ours: fields.get(theirs) for ours, theirs in _AS_IN_0_6_1.items()}
        stamped = _STAMPED.validate_python({**fields, "marker": {**fields, "attempt": fields}})
    except (TypeError, ValueError):
        return None
    started_at = stamped.started_at
    if started_at.tzinfo is None:
        started_at = started_at.replace(tzinfo=UTC)
    return replace(stamped, started_at=started_at)


@final
class LocalAttemptDirectories(AttemptDirectories):
    """Directories below one root; one instance per process and root."""

    def __init__(self, root: Path, clock: Clock, concurrency: Concurrency) -> None:
        self._root = root
        self._clock = clock
        self._concurrency = concurrency
        self._records = OwnerRecords(root)

    async def create(self, marker: AttemptMarker) -> Path:
        started_at = self._clock.now()
        stamped = StampedMarker(marker, os.getpid(), started_at)
        return await self._concurrency.blocking(lambda: self._create(stamped))

    async def record_staging(self, directory: Path, repository: str, branch: str) -> None:
        await self._concurrency.blocking(
            lambda: self._record_staging(directory, repository, branch)
        )

    async def check(self, directory: Path, execution_id: ExecutionId) -> None:
        await self._concurrency.blocking(lambda: self._check(directory, execution_id))

    async def remove(self, directory: Path) -> None:
        await self._concurrency.blocking(lambda: self._remove(directory))

    async def leftovers(self, *, older_than_seconds: float) -> Sequence[Leftover]:
        now = self._clock.now()

        def find() -> Sequence[Leftover]:
            old = [each for each in self._ownerless(now) if each.age_seconds >= older_than_seconds]
            return sorted(old, key=lambda leftover: leftover.age_seconds, reverse=True)

        return await self._concurrency.blocking(find)

    async def keep_outcome(self, directory: Path, key: str, text: str) -> None:
        def keep() -> None:
            with disk_errors(directory):
                self._records.write_outcome(directory.name, f"{OUTCOME_OF}{key}\n{text}")

        await self._concurrency.blocking(keep)

    async def kept_outcomes(self, key: str) -> Sequence[tuple[Path, str]]:
        def find() -> Sequence[tuple[Path, str]]:
            with disk_errors(self._root):
                return list(self._kept_outcomes(key))

        return await self._concurrency.blocking(find)

    async def leave(self, directory: Path) -> None:
        await self._concurrency.blocking(lambda: self._leave(directory))

    async def take_over(self, directory: Path, marker: AttemptMarker) -> None:
        stamped = StampedMarker(marker, os.getpid(), self._clock.now())
        await self._concurrency.blocking(lambda: self._take_over(directory, stamped))

    def _kept_outcomes(self, key: str) -> Iterator[tuple[Path, str]]:
        """Those of a key, and those whose first line is damaged."""
        for name in self._records.outcomes():
            if self._records.is_alive(name):
                continue
            first, _, text = (self._records.read_outcome(name) or "").partition("\n")
            if first == f"{OUTCOME_OF}{key}":
                yield self._root / name, text
            elif not first.startswith(OUTCOME_OF):
                yield self._root / name, ""

    def _take_over(self, directory: Path, stamped: StampedMarker) -> None:
        """Lock first: of two that find the same outcome, one goes on with it."""
        if self._stamped(directory) is None:
            raise _lost(directory)
        with disk_errors(directory):
            text = marker_text(_of_directory(stamped, directory))
            try:
                self._records.take(directory.name, text)
            except BlockingIOError as error:
                raise WorkspaceLostError(f"{directory} belongs to a process that runs") from error
            _write_marker(directory, text)

    def _create(self, stamped: StampedMarker) -> Path:
        attempt = stamped.marker.attempt
        name = f"task_id={_segment(attempt.task_id)}-exec={_segment(stamped.marker.execution_id)}"
        directory = self._root / name
        if os.path.lexists(directory):
            raise ExistsError(f"attempt directory {directory} exists")
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The record first: a worker that dies after this line is found by it.
            self._records.take(name, marker_text(stamped))
            directory.mkdir(mode=0o700)
            text = marker_text(_of_directory(stamped, directory))
            self._records.write(name, text)
            _write_marker(directory, text)
        except OSError as error:
            with suppress(OSError):  # a disk that refuses may refuse this as well
                remove_tree(directory)
                self._records.drop(name)
            raise LocalDiskError.of(directory, error) from error
        return directory

    def _record_staging(self, directory: Path, repository: str, branch: str) -> None:
        stamped = self._stamped(directory)
        if stamped is None:
            raise _lost(directory)
        marker = replace(stamped.marker, repository=repository, staging_branch=branch)
        text = marker_text(replace(stamped, marker=marker))
        with disk_errors(directory):
            if self._records.read(directory.name) is not None:
                self._records.write(directory.name, text)
            _write_marker(directory, text)

    def _check(self, directory: Path, execution_id: ExecutionId) -> None:
        inside = _marker_inside(directory)
        if inside is None or inside.marker.execution_id != execution_id:
            raise _lost(directory)
        if inside.inode and not _is_that_directory(directory, inside):
            raise _lost(directory)

    def _remove(self, directory: Path) -> None:
        name = directory.name
        if not os.path.lexists(directory):
            self._records.drop(name)
            return
        if self._stamped(directory) is None:
            raise WorkspaceLostError(f"{directory} is not a Perago attempt workspace")
        if self._records.is_of_another(name):
            raise WorkspaceLostError(f"{directory} belongs to a process that runs")
        with disk_errors(directory):
            # First, because what stands beside has no marker: alone it would never be found again.
            _remove_beside(directory)
            remove_tree(directory)
        self._records.drop(name)

    def _leave(self, directory: Path) -> None:
        """Whoever goes on needs no checkpoint, and copies of them may be large."""
        try:
            with disk_errors(directory):
                _remove_beside(directory)
        finally:
            self._records.let_go(directory.name)

    def _stamped(self, directory: Path) -> StampedMarker | None:
        """The record where the directory is still the recorded one, else the marker inside.

        A record without an inode is of a directory whose owner died as it was made.
        """
        text = self._records.read(directory.name)
        recorded = None if text is None else read_marker(text)
        if recorded is None:
            return _marker_inside(directory)
        if not recorded.inode or _is_that_directory(directory, recorded):
            return recorded
        return _marker_inside(directory)

    def _ownerless(self, now: datetime) -> Iterator[Leftover]:
        """Directories that no process holds; records without a directory are forgotten.

        Bodies can reach this root, so anything may stand in it: whatever goes wrong with one
        directory or one record is told of that one.
        """
        if not self._root.is_dir():
            return
        recorded = set(self._records.names())
        for name in sorted({*recorded, *(path.name for path in self._root.iterdir())}):
            path = self._root / name
            try:
                found = self._leftover(path, now, has_record=name in recorded)
            except Exception as error:  # noqa: BLE001 - reported, and the others go on
                found = Leftover(
                    path, None, math.inf, Owner.UNKNOWN, f"{type(error).__name__}: {error}"
                )
            if found is not None:
                yield found

    def _leftover(self, path: Path, now: datetime, *, has_record: bool) -> Leftover | None:
        """What a directory is, unless an attempt works in it or it is none of ours.

        Without a record there was no lock, and a number that lives may be another process's. A
        record without a directory is of a worker that died before it made or after it removed one.
        """
        if not os.path.lexists(path):
            if has_record and not self._records.is_alive(path.name):
                self._records.drop(path.name)
            return None
        if path.is_symlink() or not path.is_dir() or not _NAME.fullmatch(path.name):
            return None
        stamped = self._stamped(path)
        if stamped is None or self._records.is_alive(path.name):
            return None
        lives = not has_record and _process_lives(stamped.owner_pid)
        age = (now - stamped.started_at).total_seconds()
        return Leftover(
            path,
            stamped.marker,
            age,
            Owner.UNKNOWN if lives else Owner.GONE,
            has_outcome=self._records.has_outcome(path.name),
        )


def _segment(text: str) -> str:
    """A part of a directory name; what a name cannot hold or would make too long is hashed in."""
    safe = re.sub(r"[^A-Za-z0-9_.=-]+", "_", text).strip("._") or "unknown"
    if safe == text and len(safe) <= SEGMENT_LENGTH_MAX:
        return safe
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe[:SEGMENT_LENGTH_MAX]}-{digest}"


def _marker_inside(directory: Path) -> StampedMarker | None:
    try:
        if directory.is_symlink():
            return None
        return read_marker((directory / ATTEMPT_MARKER).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def _write_marker(directory: Path, text: str) -> None:
    """Write the marker as a new file: a body may have put a link to another file in its place."""
    marker = directory / ATTEMPT_MARKER
    marker.unlink(missing_ok=True)
    with marker.open("x", encoding="utf-8") as file:
        file.write(text)


def _remove_beside(directory: Path) -> None:
    if os.path.lexists(beside(directory)):
        remove_tree(beside(directory))


def _of_directory(stamped: StampedMarker, directory: Path) -> StampedMarker:
    status = directory.lstat()
    return replace(stamped, device=status.st_dev, inode=status.st_ino)


def _is_that_directory(directory: Path, stamped: StampedMarker) -> bool:
    with suppress(OSError):
        status = directory.lstat()
        return (status.st_dev, status.st_ino) == (stamped.device, stamped.inode)
    return False


def _process_lives(pid: int) -> bool:
    """Whether a process of that number runs; only asked for directories without a record."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _lost(directory: Path) -> WorkspaceLostError:
    return WorkspaceLostError(
        f"attempt directory {directory} vanished or belongs to another attempt; nothing was"
        " published; keep temporary-file cleaners away from PERAGO_WORKSPACE_ROOT"
    )


def remove_tree(directory: Path) -> None:
    """Remove a directory; one that vanished meanwhile is removed as well.

    It follows no symlink, opens closed directories, and needs neither the stack of the interpreter
    nor a path: a task function may leave a tree that is deeper than either allows.
    """
    try:
        parent = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        current = _entered(parent, directory.name)
        if current is not None:
            _empty(current, directory.name)
        _drop(parent, directory.name)
    finally:
        os.close(parent)


@dataclass(slots=True)
class _Level:
    """One directory on the way down: its name in its parent, who it is, and what is left in it."""

    name: str
    identity: tuple[int, int]
    folders: list[str]


def _empty(current: int, name: str) -> None:
    """Remove what a directory holds, deepest first; closes its descriptor.

    One descriptor walks down by names and up by "..": one for each level would be too many.
    """
    try:
        levels = [_Level(name, _identity(current), _without_files(current))]
        while True:
            level = levels[-1]
            if level.folders:
                below = _entered(current, level.folders[-1])
                if below is None:
                    _drop(current, level.folders.pop())
                    continue
                os.close(current)
                current = below
                levels.append(
                    _Level(level.folders.pop(), _identity(current), _without_files(current))
                )
                continue
            levels.pop()
            if not levels:
                return
            above = os.open("..", os.O_RDONLY | _DIRECTORY, dir_fd=current)
            os.close(current)
            current = above
            if _identity(current) != levels[-1].identity:  # never go on in another directory
                raise OSError(f"{level.name} was moved while it was removed")
            _drop(current, level.name)
    finally:
        os.close(current)


def _entered(parent: int, name: str) -> int | None:
    """Open a directory for all that removing needs; None when it is gone.

    A closed one (mode 000) is opened up first, through a handle that needs no permission: changing
    the mode by name would follow a symlink that was put there meanwhile.
    """
    try:
        handle = os.open(name, os.O_PATH | _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(handle).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)  # noqa: PTH101 - a handle, no path
        return os.open(".", os.O_RDONLY | _DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)


def _without_files(directory: int) -> list[str]:
    """Remove what is no directory; the names of the directories."""
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if not is_folder:
            with suppress(FileNotFoundError):  # another sweep removes the same tree
                os.unlink(name, dir_fd=directory)
    return [name for name, is_folder in found if is_folder]


def _drop(parent: int, name: str) -> None:
    with suppress(FileNotFoundError):  # another sweep removes the same tree
        os.rmdir(name, dir_fd=parent)


def _identity(descriptor: int) -> tuple[int, int]:
    facts = os.fstat(descriptor)
    return facts.st_dev, facts.st_ino
