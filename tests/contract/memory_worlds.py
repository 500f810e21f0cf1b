"""The in-memory servers as worlds of the contract suites: every test has its own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from perago.testing.contract.conductor_world import ConductorWorld, MemoryConductorWorld
from perago.testing.contract.lakefs_world import LakeFSWorld, memory_lakefs_world


@asynccontextmanager
async def open_memory_lakefs(_request: pytest.FixtureRequest) -> AsyncGenerator[LakeFSWorld]:
    """A lakeFS of its own for each test; nothing is left behind."""
    yield memory_lakefs_world()


@asynccontextmanager
async def open_memory_conductor(_request: pytest.FixtureRequest) -> AsyncGenerator[ConductorWorld]:
    """A Conductor of its own for each test."""
    yield MemoryConductorWorld()
