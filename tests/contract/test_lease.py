"""Laws of perago.ports.lease."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from perago.adapters.system.clock import SystemClock
from perago.app.worker.heartbeat import Heartbeat, HeartbeatLease
from perago.domain.attempt_fence import Current, FenceVerdict, Stale
from perago.ports.lease import Lease


@dataclass
class Server:
    """Takes heartbeats slowly."""

    begun: int = 0
    answered: int = 0
    first: asyncio.Event = field(default_factory=asyncio.Event)

    async def beat(self) -> None:
        """Answer after a while."""
        self.begun += 1
        self.first.set()
        await asyncio.sleep(0.2)
        self.answered += 1

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
    heartbeat = Heartbeat(server.beat, server.look, server.lost, pause_seconds=0.1)
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
