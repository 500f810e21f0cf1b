"""The in-memory servers as worlds of the contract suites: every test has its own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from perago.testing.contract.conductor_under_test import (
    ConductorUnderTest,
    MemoryConductorUnderTest,
)
from perago.testing.contract.lakefs_under_test import LakeFSUnderTest, memory_lakefs_under_test


@asynccontextmanager
async def open_memory_lakefs(_request: pytest.FixtureRequest) -> AsyncGenerator[LakeFSUnderTest]:
    """A lakeFS of its own for each test; nothing is left behind."""
    yield memory_lakefs_under_test()


@asynccontextmanager
async def open_memory_conductor(
    _request: pytest.FixtureRequest,
) -> AsyncGenerator[ConductorUnderTest]:
    """A Conductor of its own for each test."""
    yield MemoryConductorUnderTest()
