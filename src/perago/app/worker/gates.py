"""What must hold before a worker asks for more work: services that answer, a disk with room.

A failed service is looked at again before anything is polled for it, so that no retry of a task
is spent on finding out. What is polled, and when, is `polling`'s.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import final

from perago.app.worker.circuit_breaker import CircuitBreaker
from perago.ports.errors import OutcomeUnknownError, UnavailableError, WorldError

DISK_PAUSE_SECONDS = 5.0
DISK_BYTES_MIN = 512 * 1024**2
DISK_FRACTION_MIN = 0.02


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """A disk as the operating system tells it."""

    total: int
    free: int
    wanted: int | None = None

    @property
    def is_nearly_full(self) -> bool:
        """Whether another workspace could be the last straw; small disks have a smaller one."""
        if self.wanted is not None:
            return self.free < self.wanted
        return self.free < min(DISK_BYTES_MIN, self.total * DISK_FRACTION_MIN)


@final
class ServiceGate:
    """One service: open while its breaker is closed, else as long as a look succeeds."""

    def __init__(self, breaker: CircuitBreaker, look: Callable[[], Awaitable[object]]) -> None:
        self.breaker = breaker
        self._look = look

    async def pause(self) -> float:
        """Seconds to wait before polling; 0 when the service answers."""
        if self.breaker.closed:
            return 0.0
        left = self.breaker.seconds_left
        return left if left > 0 else await self.look()

    async def look(self) -> float:
        """Ask now; 0 when the service answers, else the pause that its failure costs."""
        try:
            await self._look()
        except (UnavailableError, OutcomeUnknownError) as error:
            return self.breaker.failed(str(error))
        except WorldError:
            pass  # an answer, if not a kind one
        self.breaker.succeeded()
        return 0.0


@final
class DiskGate:
    """The disk below the workspaces."""

    def __init__(self, space: Callable[[], DiskSpace], warn: Callable[[DiskSpace], None]) -> None:
        self._space = space
        self._warn = warn
        self._warned = False

    async def pause(self) -> float:
        """Seconds to wait before polling; 0 when there is room."""
        space = self._space()
        if not space.is_nearly_full:
            self._warned = False
            return 0.0
        if not self._warned:
            self._warn(space)
            self._warned = True
        return DISK_PAUSE_SECONDS
