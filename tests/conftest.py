"""Fixtures of all suites; each suite has its own beside its tests."""

import gc
import os
import tempfile

import pytest
from tests.scratch_space import scratch_space

pytest_plugins = ["tests.servers_plugin", "tests.spark_plugin"]

if (place := scratch_space(os.environ)) is not None:
    os.environ["TMPDIR"] = tempfile.tempdir = str(place)

# What collecting loads stays to the end. Looking for garbage in it again and again costs more than
# all tests together.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Look for garbage in what the tests make, and not in what was there before them."""
    gc.collect()
    gc.freeze()
    gc.enable()
