"""Who owns a workspace root, and each attempt directory below it.

`RootLock` keeps two workers off one root. `OwnerRecords` holds a lock for each attempt directory.
The system drops both when the process dies.
"""

import fcntl
import json
import os
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, final

from perago.domain.errors import RuntimeConfigError

# The name of 0.6.1, whose workers find our process id in it and refuse the root.
LOCK_NAME = ".perago-supervisor.lock"
# O_NONBLOCK: opening a pipe that another user put here would otherwise wait for ever.
CREATED_OR_FOUND = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# A worker that dies as often as this before Conductor answers its successor leaves rows behind that
# wait for their response time-out. The file of a worker that is restarted for months must not grow.
NAMES_MAX = 20
# Far above 20 names. A file that another program has filled is not read whole.
NAMES_BYTES_MAX = 64 * 1024
RECORDS_DIRECTORY = ".perago-attempts"
# A link is refused: it could only lead to a file that is not a record.
_AS_IT_IS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
# Who looks whether an owner lives holds the lock for microseconds. An owner holds it to its end.
_LOOKS_MAX, _LOOK_SECONDS = 20, 0.005


@final
class RootLock:
    """Held from entering to leaving, at the longest until this process ends."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / LOCK_NAME
        self._descriptor: int | None = None
        # The workers that polled with this root before, the oldest first.
        self.former: Sequence[str] = ()
        self._names: tuple[str, ...] = ()

    def add(self, worker_id: str) -> None:
        """Write a worker down for those that follow."""
        self._names = (*self._names, worker_id)[-NAMES_MAX:]
        self._write({"supervisor_pid": os.getpid()})

    def __enter__(self) -> Self:
        """Take the lock, or raise with the process that holds it."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = self._opened()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise RuntimeConfigError(
                f"workspace root {self._root} is already locked by supervisor pid {self._holder()};"
                " use a different PERAGO_WORKSPACE_ROOT for each supervisor",
                code="PRG-C016",
            ) from error
        self._descriptor = descriptor
        self.former = self._names = _worker_names(os.pread(descriptor, NAMES_BYTES_MAX, 0))
        self._write({"supervisor_pid": os.getpid()})
        return self

    def __exit__(self, *_: object) -> None:
        """Let it go; the file stays, since removing it could remove another process's."""
        self._write({})
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _write(self, facts: Mapping[str, object]) -> None:
        if self._descriptor is not None:
            content = json.dumps({**facts, "worker_ids": self._names}).encode()
            with suppress(OSError):  # a full disk is no reason not to work or not to end
                os.ftruncate(self._descriptor, os.pwrite(self._descriptor, content, 0))

    def _opened(self) -> int:
        """The lock file, made if it is not there; never a file that another user pointed us to.

        What is opened here is emptied and written, so a link that another user made would empty
        any file of this user.
        """
        try:
            descriptor = os.open(self._path, CREATED_OR_FOUND, 0o600)
        except OSError as error:
            raise self._refused(error.strerror or str(error)) from error
        status = os.fstat(descriptor)
        found = None
        if not stat.S_ISREG(status.st_mode):
            found = "it is not a regular file"
        elif status.st_uid != os.geteuid():
            found = f"it belongs to the user {status.st_uid}"
        elif status.st_nlink != 1:
            found = "it has a second name, a hard link"
        if found is not None:
            os.close(descriptor)
            raise self._refused(found)
        return descriptor

    def _refused(self, found: str) -> RuntimeConfigError:
        return RuntimeConfigError(
            f"the lock {self._path} cannot be used: {found}; expected a regular file of this user;"
            " set PERAGO_WORKSPACE_ROOT to a directory of your own, or remove the file if no worker"
            f" uses this root: rm {self._path}",
            code="PRG-C005",
        )

    def _holder(self) -> object:
        """The process that holds the lock; a file that is empty or damaged does not tell it."""
        try:
            return json.loads(self._path.read_text(encoding="utf-8"))["supervisor_pid"]
        except (OSError, ValueError, KeyError, TypeError):
            return "unknown"


@final
class OwnerRecords:
    """The records below one root, and the locks that this process holds on them."""

    def __init__(self, root: Path) -> None:
        self._directory = root / RECORDS_DIRECTORY
        self._held: dict[str, int] = {}

    def take(self, name: str, text: str) -> None:
        """Write a record and hold its lock until it is dropped or this process ends."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._file(name, "lock"), os.O_CREAT | _AS_IT_IS, 0o600)
        try:
            _lock_alone(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._held[name] = descriptor
        self.write(name, text)

    def write(self, name: str, text: str) -> None:
        """Replace the text of a record; a crash leaves the old one.

        Not synced to the disk: after a power cut every owner is dead, and remote litter is found
        by its name.
        """
        self._replace(name, "json", text)

    def read(self, name: str) -> str | None:
        """The text of a record, or None."""
        try:
            return self._file(name, "json").read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def names(self) -> list[str]:
        """Every record."""
        return self._names("json")

    def is_alive(self, name: str) -> bool:
        """Whether a process, this one included, holds the lock of a record."""
        if name in self._held:
            return True
        try:
            descriptor = os.open(self._file(name, "lock"), _AS_IT_IS)
        except FileNotFoundError:
            return False
        try:
            # Shared: two attempts that look at once must not take each other for the owner.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def is_of_another(self, name: str) -> bool:
        """Whether another process holds the lock of a record."""
        return name not in self._held and self.is_alive(name)

    def write_outcome(self, name: str, text: str) -> None:
        """Write what a task function came to; it is on the disk when this returns.

        The file is flushed before it gets its name, and the directory after: without the first a
        power cut leaves a name without bytes, without the second the bytes without a name.
        """
        self._replace(name, "outcome", text, is_flushed=True)
        above = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(above)
        finally:
            os.close(above)

    def read_outcome(self, name: str) -> str | None:
        """What was written, damaged bytes replaced; None where nothing was."""
        try:
            return self._file(name, "outcome").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def has_outcome(self, name: str) -> bool:
        """Whether an outcome was written."""
        return self._file(name, "outcome").exists()

    def outcomes(self) -> list[str]:
        """The name of every record with an outcome."""
        return self._names("outcome")

    def drop(self, name: str) -> None:
        """Forget a record and let its lock go; an absent one is fine.

        The record goes after the other files, because a sweep finds by it what a crash in between
        has left. The lock goes last: a sweep takes a record without one for that of a dead worker.
        """
        # "new" is what 0.7.0 once called a record that it had begun to write.
        for kind in ("new-outcome", "outcome", "new", "new-json", "json", "lock"):
            self._file(name, kind).unlink(missing_ok=True)
        self.let_go(name)

    def let_go(self, name: str) -> None:
        """Hold the lock of a record no longer; the record stays."""
        descriptor = self._held.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def _replace(self, name: str, kind: str, text: str, *, is_flushed: bool = False) -> None:
        fresh = self._file(name, f"new-{kind}")
        fresh.unlink(missing_ok=True)  # of a write that a crash ended
        descriptor = os.open(fresh, os.O_CREAT | os.O_EXCL | _AS_IT_IS, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            if is_flushed:
                file.flush()
                os.fsync(descriptor)
        fresh.replace(self._file(name, kind))

    def _names(self, kind: str) -> list[str]:
        return sorted(path.stem for path in self._directory.glob(f"*.{kind}"))

    def _file(self, name: str, kind: str) -> Path:
        return self._directory / f"{name}.{kind}"


def _worker_names(content: bytes) -> tuple[str, ...]:
    """What earlier workers wrote; none where only 0.6.1 or no worker was before."""
    with suppress(ValueError):
        match json.loads(content):
            case {"worker_ids": [*names]}:
                return tuple(map(str, names))
            case _:
                pass
    return ()


def _lock_alone(descriptor: int) -> None:
    """Take a lock whoever looks at it; BlockingIOError when it has an owner."""
    for _ in range(_LOOKS_MAX):
        with suppress(BlockingIOError):
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(_LOOK_SECONDS)  # noqa: TID251 - in a thread, for another that looks
    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
