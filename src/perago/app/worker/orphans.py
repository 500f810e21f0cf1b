"""Waits for processes that nobody else waits for: as process 1 a worker inherits every orphan.

Only zombies of other sessions that are still there at a second look are taken: whoever started
a process himself has waited for it by then. Without /proc nothing is done.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import final

PROCESSES = Path("/proc")


@final
class Orphans:
    """Looked at once a second."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def reap(self) -> None:
        """Wait for the zombies that were there last time as well."""
        seen = set(_foreign_zombies())
        for pid in seen & self._seen:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._seen = seen - self._seen


def _foreign_zombies() -> Iterator[int]:
    """Dead children of this process whose session is not its own."""
    own = os.getsid(0)
    for listed in (PROCESSES / "self" / "task").glob("*/children"):
        for pid in _text(listed).split():
            state, session = _state_and_session(pid)
            if state == "Z" and session != own:
                yield int(pid)


def _state_and_session(pid: str) -> tuple[str, int]:
    fields = _text(PROCESSES / pid / "stat").rpartition(")")[2].split()
    return (fields[0], int(fields[3])) if fields else ("", 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
