"""Waits for processes that nobody else waits for: as process 1 a worker inherits every orphan.

Only zombies of other sessions that are still there at a second look are taken: whoever started
a process himself has waited for it by then. Without /proc nothing is done.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import final

from perago.app.worker.process_table import PROCESSES, process_facts, text_of


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
        for pid in map(int, text_of(listed).split()):
            facts = process_facts(pid)
            if facts is not None and facts.is_dead and facts.session != own:
                yield pid
