"""Who owns an attempt directory, told by a lock that dies with its process.

The record stands beside the directories, out of a body's way: a body that removes its marker leaks
nothing, and a crashed owner or a reused process id blocks nobody. Knows no markers' content.
"""

import fcntl
import os
from pathlib import Path
from typing import final

RECORDS_DIRECTORY = ".perago-attempts"
# A link is refused: it could only lead to a file that is not a record.
_AS_IT_IS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


@final
class OwnerRecords:
    """The records below one root, and the locks that this process holds on them."""

    def __init__(self, root: Path) -> None:
        self._directory = root / RECORDS_DIRECTORY
        self._held: dict[str, int] = {}

    def take(self, name: str, text: str) -> None:
        """Write a record and hold its lock until it is dropped or this process ends."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._lock(name), os.O_CREAT | _AS_IT_IS, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
        fresh = self._fresh(name)
        fresh.unlink(missing_ok=True)  # of a write that a crash ended
        descriptor = os.open(fresh, os.O_CREAT | os.O_EXCL | _AS_IT_IS, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(self._record(name))

    def read(self, name: str) -> str | None:
        """The text of a record, or None."""
        try:
            return self._record(name).read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def names(self) -> list[str]:
        """Every record."""
        if not self._directory.is_dir():
            return []
        return sorted(path.stem for path in self._directory.glob("*.json"))

    def is_alive(self, name: str) -> bool:
        """Whether somebody, this process included, holds the lock of a record."""
        if name in self._held:
            return True
        try:
            descriptor = os.open(self._lock(name), _AS_IT_IS)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def drop(self, name: str) -> None:
        """Forget a record and let its lock go; an absent one is fine."""
        self._fresh(name).unlink(missing_ok=True)
        self._record(name).unlink(missing_ok=True)
        self._lock(name).unlink(missing_ok=True)
        descriptor = self._held.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def _fresh(self, name: str) -> Path:
        return self._directory / f"{name}.new"

    def _record(self, name: str) -> Path:
        return self._directory / f"{name}.json"

    def _lock(self, name: str) -> Path:
        return self._directory / f"{name}.lock"
