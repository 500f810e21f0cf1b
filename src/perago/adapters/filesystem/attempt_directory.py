"""Attempt directories on the local disk, and the marker in each.

`LocalAttemptDirectories` makes, checks, removes and finds them. The owner is known by a lock on a
record beside them (`tree_removal.OwnerRecords`), because a process id may be given to another
process. The marker is `.perago-attempt.json`, a superset of 0.6.1's.
"""

import errno
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast, final

from perago.adapters.filesystem.tree_removal import OwnerRecords, remove_tree
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.paths import ATTEMPT_MARKER
from perago.domain.retention import Owner
from perago.ports.errors import DISK_FULL, ExistsError, LocalDiskError, WorkspaceLostError
from perago.ports.system import Clock, Concurrency
from perago.ports.workspace import AttemptDirectories, AttemptMarker, Leftover, beside


@dataclass(frozen=True, slots=True)
class StampedMarker:
    """A marker with what the machine adds: process, moment, and the directory's identity."""

    marker: AttemptMarker
    owner_pid: int
    started_at: datetime
    device: int = 0
    inode: int = 0


def marker_text(stamped: StampedMarker) -> str:
    """Write a marker."""
    attempt = stamped.marker.attempt
    fields: dict[str, object] = {
        "device": stamped.device,
        "execution_id": stamped.marker.execution_id,
        "inode": stamped.inode,
        "iteration": attempt.iteration,
        "owner_pid": stamped.owner_pid,
        "owner_token": stamped.marker.execution_id,
        "owner_worker_id": stamped.marker.owner_worker_id,
        "poll_count": attempt.poll_count,
        "reference_name": attempt.reference_name,
        "repository": stamped.marker.repository,
        "retried_task_id": attempt.retried_task_id,
        "retry_count": attempt.retry_count,
        "scheduled_time": attempt.scheduled_time,
        "seq": attempt.seq,
        "staging_branch": stamped.marker.staging_branch,
        "start_time": attempt.start_time,
        "started_at": stamped.started_at.isoformat(),
        "status": str(attempt.status),
        "task_def_name": attempt.task_type,
        "task_id": attempt.task_id,
        "worker_id": attempt.worker_id,
        "workflow_instance_id": attempt.workflow_id,
    }
    return json.dumps(fields, sort_keys=True, ensure_ascii=False)


def read_marker(text: str) -> StampedMarker | None:
    """Read a marker, or None for what is not one; 0.6.1's markers lack the newer fields."""
    try:
        parsed: object = json.loads(text)
    except ValueError:
        return None
    if not isinstance(parsed, dict):
        return None
    fields = cast("Mapping[str, object]", parsed)
    try:
        return StampedMarker(
            marker=AttemptMarker(
                attempt=_attempt(fields),
                execution_id=ExecutionId(_text(fields, "execution_id")),
                owner_worker_id=_text(fields, "owner_worker_id"),
                staging_branch=_optional(fields, "staging_branch"),
                repository=_optional(fields, "repository"),
            ),
            owner_pid=_number(fields, "owner_pid"),
            started_at=_moment(_text(fields, "started_at")),
            device=_number(fields, "device"),
            inode=_number(fields, "inode"),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _attempt(fields: Mapping[str, object]) -> AttemptSnapshot:
    return AttemptSnapshot(
        workflow_id=_text(fields, "workflow_instance_id"),
        task_id=_text(fields, "task_id"),
        reference_name=_optional(fields, "reference_name") or "",
        task_type=_text(fields, "task_def_name"),
        status=AttemptStatus(_optional(fields, "status") or AttemptStatus.IN_PROGRESS),
        retry_count=_number(fields, "retry_count"),
        seq=_number(fields, "seq"),
        iteration=_number(fields, "iteration"),
        poll_count=_number(fields, "poll_count"),
        start_time=_number(fields, "start_time"),
        scheduled_time=_number(fields, "scheduled_time"),
        worker_id=_optional(fields, "worker_id"),
        retried_task_id=_optional(fields, "retried_task_id"),
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _optional(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _number(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name, 0)
    if not isinstance(value, int):
        raise TypeError(name)
    return value


# Two of these, two hashes and the words between them make 212 characters, and `.json` or `.lock`
# follow in the name of its record. Common file systems end at 255.
SEGMENT_LENGTH_MAX = 90
_NAME = re.compile(r"task_id=.+-exec=.+")
# The first line of a kept outcome, before its key: an attempt that looks for its own reads no more
# of the others.
OUTCOME_OF = "perago outcome of "


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
            try:
                self._records.write_outcome(directory.name, f"{OUTCOME_OF}{key}\n{text}")
            except OSError as error:
                raise _refused(directory, error) from error

        await self._concurrency.blocking(keep)

    async def kept_outcomes(self, key: str) -> Sequence[tuple[Path, str]]:
        def find() -> Sequence[tuple[Path, str]]:
            try:
                return list(self._kept_outcomes(key))
            except OSError as error:
                raise _refused(self._root, error) from error

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
        try:
            status = directory.lstat()
            stamped = replace(stamped, device=status.st_dev, inode=status.st_ino)
            self._records.take(directory.name, marker_text(stamped))
            _write_marker(directory, marker_text(stamped))
        except BlockingIOError as error:
            raise WorkspaceLostError(f"{directory} belongs to a process that runs") from error
        except OSError as error:
            raise _refused(directory, error) from error

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
            status = directory.lstat()
            stamped = replace(stamped, device=status.st_dev, inode=status.st_ino)
            self._records.write(name, marker_text(stamped))
            _write_marker(directory, marker_text(stamped))
        except OSError as error:
            with suppress(OSError):  # a disk that refuses may refuse this as well
                remove_tree(directory)
                self._records.drop(name)
            raise _refused(directory, error) from error
        return directory

    def _record_staging(self, directory: Path, repository: str, branch: str) -> None:
        stamped = self._stamped(directory)
        if stamped is None:
            raise _lost(directory)
        marker = replace(stamped.marker, repository=repository, staging_branch=branch)
        text = marker_text(replace(stamped, marker=marker))
        try:
            if self._records.read(directory.name) is not None:
                self._records.write(directory.name, text)
            _write_marker(directory, text)
        except OSError as error:
            raise _refused(directory, error) from error

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
        try:
            # First, because what stands beside has no marker: alone it would never be found again.
            _remove_beside(directory)
            remove_tree(directory)
        except OSError as error:
            raise _refused(directory, error) from error
        self._records.drop(name)

    def _leave(self, directory: Path) -> None:
        """Whoever goes on needs no checkpoint, and copies of them may be large."""
        try:
            _remove_beside(directory)
        except OSError as error:
            raise _refused(directory, error) from error
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
                found = Leftover(path, None, math.inf, Owner.UNKNOWN, _described(error))
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


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _lost(directory: Path) -> WorkspaceLostError:
    return WorkspaceLostError(
        f"attempt directory {directory} vanished or belongs to another attempt; nothing was"
        " published; keep temporary-file cleaners away from PERAGO_WORKSPACE_ROOT"
    )


def _refused(directory: Path, error: OSError) -> LocalDiskError:
    reason = errno.errorcode.get(error.errno or 0, type(error).__name__)
    refused = LocalDiskError(f"{directory}: {error.strerror or error} ({reason})")
    refused.is_full = error.errno in DISK_FULL
    return refused
