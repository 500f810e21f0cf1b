"""What must hold before a worker asks for more work: services that answer, a disk with room.

A failed service is looked at again before anything is polled for it, so that no retry of a task
is spent on finding out. What is polled, and when, is `polling`'s.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import final

from perago.app.worker.circuit_breaker import Circuit, CircuitBreaker
from perago.ports.errors import OutcomeUnknownError, UnavailableError, WorldError

DISK_PAUSE_SECONDS = 5.0
# A pause may end early, because another poller or an attempt found that the service works again.
LOOK_AGAIN_SECONDS = 1.0
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
    """One service: open while its breaker is closed, then for one attempt after a good look."""

    def __init__(self, breaker: CircuitBreaker, look: Callable[[], Awaitable[object]]) -> None:
        self.breaker = breaker
        self._look = look

    @property
    def one_at_a_time(self) -> bool:
        """Whether the service answers, but has done nothing since it failed."""
        return self.breaker.state is Circuit.HALF_OPEN

    async def pause(self) -> float:
        """Seconds to wait before polling; 0 when the service works, or may be tried."""
        if self.breaker.state in {Circuit.CLOSED, Circuit.HALF_OPEN}:
            return 0.0
        return await self._wait_or_look()

    async def outage(self) -> float:
        """Seconds to wait with an attempt that is polled already; a trial waits for none."""
        if self.breaker.state is not Circuit.OPEN:
            return 0.0
        return await self._wait_or_look()

    def tried(self) -> None:
        """An attempt that needs the service was polled."""
        self.breaker.tried()

    async def _wait_or_look(self) -> float:
        left = min(self.breaker.seconds_left, LOOK_AGAIN_SECONDS)
        return left if left > 0 else await self.look()

    async def look(self) -> float:
        """Ask now; 0 when the service answers, else the pause that its failure costs."""
        try:
            await self._look()
        except (UnavailableError, OutcomeUnknownError) as error:
            return self.breaker.failed(str(error))
        except WorldError:
            pass  # an answer, if not a kind one
        self.breaker.looked()
        return 0.0


@final
class DiskGate:
    """The disk below the workspaces."""

    def __init__(self, space: Callable[[], DiskSpace], warn: Callable[[DiskSpace], None]) -> None:
        self._space = space
        self._warn = warn
        self._warned = False

    @property
    def one_at_a_time(self) -> bool:
        """A disk has room or has none."""
        return False

    def tried(self) -> None:
        """Nothing is learned from it."""

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
