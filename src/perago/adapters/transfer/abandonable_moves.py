"""A transfer that nobody waits for any more ends at its next object."""

from threading import Event
from typing import final

from perago.ports.errors import UnavailableError
from perago.ports.object_transport import Moved


@final
class AbandonableMoves:
    """Counts what has moved; after `abandon` the next count is refused, which ends the crew.

    Listeners never raise; this one stands between them and the crew for nothing else.
    """

    def __init__(self, moved: Moved) -> None:
        self._moved = moved
        self._abandoned = Event()

    def abandon(self) -> None:
        """Move nothing more."""
        self._abandoned.set()

    def __call__(self, size: int, files: int) -> None:
        """So many bytes and whole files more."""
        if self._abandoned.is_set():
            raise UnavailableError("the transfer was abandoned")
        self._moved(size, files)
