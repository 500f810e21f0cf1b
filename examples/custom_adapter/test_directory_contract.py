"""The adapter proves itself with the public contract suites: one fixture, then every law."""

from pathlib import Path

import pytest
from examples.custom_adapter.directory_lakefs import DirectoryStore, installation_in

from perago.adapters.memory.system import WorkerHandle
from perago.testing.contract.branches import *  # noqa: F403 - every law of the port
from perago.testing.contract.lakefs_under_test import LakeFSUnderTest, MemoryLakeFSUnderTest
from perago.testing.contract.merges import *  # noqa: F403 - as above


@pytest.fixture
def lakefs_under_test(tmp_path: Path) -> LakeFSUnderTest:
    """A lakeFS in a directory of its own; what no port offers is done in its memory."""
    store = DirectoryStore(tmp_path)
    return MemoryLakeFSUnderTest(store.lakefs, installation_in(store, WorkerHandle()))
