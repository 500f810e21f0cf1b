"""Laws of perago.ports.task_body."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from perago.adapters.system import SystemClock
from perago.app.worker.attempts import Heartbeat, HeartbeatLease
from perago.domain.attempt import Current, FenceVerdict, Stale
from perago.ports.errors import UnavailableError
from perago.ports.task_body import Lease


@dataclass
class Server:
    """Takes heartbeats slowly."""

    begun: int = 0
    answered: int = 0
    fails: bool = False
    answered_at: list[float] = field(default_factory=list[float])
    first: asyncio.Event = field(default_factory=asyncio.Event)

    async def beat(self) -> None:
        """Answer after a while."""
        came = SystemClock().monotonic()
        self.begun += 1
        self.first.set()
        await asyncio.sleep(0.2)
        if self.fails:
            raise UnavailableError("refused")
        self.answered += 1
        self.answered_at.append(came)

    async def look(self) -> FenceVerdict:
        """Nobody took the attempt."""
        return Current()

    def lost(self, stale: Stale) -> None:
        """Nobody took the attempt."""
        pytest.fail(f"nobody took the attempt: {stale}")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def lease(server: Server) -> AsyncIterator[Lease]:
    heartbeat = Heartbeat(
        server.beat, server.look, server.lost, pause_seconds=0.1, fraction=lambda: 1.0
    )
    lease = HeartbeatLease(heartbeat, SystemClock()).start()
    yield lease
    await lease.end()


async def test_L1_end_joins_the_sender(lease: Lease, server: Server) -> None:
    await server.first.wait()
    assert server.answered < server.begun
    await lease.end()
    assert server.answered == server.begun
    await asyncio.sleep(0.3)
    assert server.answered == server.begun


async def test_L2_end_is_idempotent(lease: Lease, server: Server) -> None:
    await server.first.wait()
    await lease.end()
    await lease.end()
    assert server.answered == server.begun


async def test_L3_last_beat_is_the_last_that_was_answered(lease: Lease, server: Server) -> None:
    began = lease.last_beat
    assert began is not None
    while len(server.answered_at) < 2:  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0.05)
    server.fails = True
    failing_from = server.begun
    while server.begun < failing_from + 2:  # noqa: ASYNC110 - the server tells nobody
        await asyncio.sleep(0.05)
    await lease.end()
    *_, before, last = server.answered_at
    assert lease.last_beat is not None
    assert began < before < lease.last_beat <= last
