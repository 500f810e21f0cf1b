"""Laws of perago.ports.system."""

import asyncio
from datetime import timedelta

import pytest
from tests.contract.local_adapters import CLOCKS

from perago.adapters.memory.system import VirtualClock
from perago.ports.system import Clock


@pytest.fixture(params=list(CLOCKS))
def clock(request: pytest.FixtureRequest) -> Clock:
    return CLOCKS[request.param]()


async def sleep_through(clock: Clock, seconds: float) -> None:
    """Sleep; somebody has to move the hands of a virtual clock."""
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    if isinstance(clock, VirtualClock):
        await clock.let_pass(seconds)
    await sleeping


async def test_K1_monotonic_never_goes_back(clock: Clock) -> None:
    readings = [clock.monotonic()]
    for _ in range(3):
        await sleep_through(clock, 0.001)
        readings.append(clock.monotonic())
    assert readings == sorted(readings)


async def test_K2_sleep_takes_that_long(clock: Clock) -> None:
    before = clock.monotonic()
    await sleep_through(clock, 0.02)
    assert clock.monotonic() - before >= 0.02


async def test_K3_now_is_utc(clock: Clock) -> None:
    assert clock.now().utcoffset() == timedelta(0)
