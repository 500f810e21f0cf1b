"""The Spark session of a test run: one per master, started by the first test that asks for it.

A test that takes `any_master` runs on threads and on executor JVMs of their own, one that takes
`on_cluster` on the latter only. Tests of one master run together, so that each is started once.
"""

import os
import secrets
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from perago.adapters.spark.jars import HOME, fetch_jars
from perago.adapters.spark.session import (
    SparkConfiguration,
    scratch_home,
    start_session,
    stop_session,
)

LOCAL = "local[2,3]"  # two threads; a task may fail twice
CLUSTER = "local-cluster[2,1,1024]"
OPTIONS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each Spark test its master."""
    if "spark_session" in metafunc.fixturenames:
        masters = [LOCAL]
        if "any_master" in metafunc.fixturenames:
            masters = [LOCAL, CLUSTER]
        if "on_cluster" in metafunc.fixturenames:
            masters = [CLUSTER]
        metafunc.parametrize("spark_session", masters, indirect=True, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one master follow each other, after all that need no Spark."""
    items.sort(key=_master_of)


def _master_of(item: pytest.Item) -> str:
    call = getattr(item, "callspec", None)
    return "" if call is None else str(call.params.get("spark_session", ""))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Jars and home come before any test, in any order: a JVM keeps what it began with."""
    if item.get_closest_marker("spark"):
        fetch_jars()
        if HOME not in os.environ:
            os.environ[HOME] = str(scratch_home())


@pytest.fixture(scope="session")
def spark_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes down everything that its UI would show."""
    return tmp_path_factory.mktemp("spark-events")


@pytest.fixture(scope="session")
def spark_session(request: pytest.FixtureRequest, spark_events: Path) -> Generator[Any]:
    """The session that bodies find in this process."""
    options = {**OPTIONS, "spark.eventLog.dir": spark_events.as_uri()}
    stop_session()  # another fixture's would be taken, whatever its master
    configuration = SparkConfiguration(master=request.param, options=options)
    session = start_session(configuration, needs_s3a=True)
    yield session
    session.stop()


@pytest.fixture
def any_master() -> None:
    """Asked for by tests that run on every master."""


@pytest.fixture
def on_cluster() -> None:
    """Asked for by tests that need executors which can die."""


@pytest.fixture
def unique_name() -> Callable[[str], str]:
    """Names that no other test uses, for tasks."""
    return lambda prefix: f"{prefix}-{secrets.token_hex(4)}"
