"""The Spark session of a test run: started by the first test that asks, on one master a run.

PERAGO_TEST_SPARK_MASTER names another master than local[2].
"""

import os
import secrets
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from perago.adapters.spark.configuration import SparkConfiguration
from perago.adapters.spark.jars import fetch_jars
from perago.adapters.spark.session import start_session

MASTER = os.environ.get("PERAGO_TEST_SPARK_MASTER", "local[2]")


@pytest.fixture(scope="session")
def spark_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes down everything that its UI would show."""
    return tmp_path_factory.mktemp("spark-events")


@pytest.fixture(scope="session")
def spark_session(spark_events: Path) -> Generator[Any]:
    """The session that bodies find in this process."""
    fetch_jars()
    options = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": spark_events.as_uri(),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    configuration = SparkConfiguration(master=MASTER, options=options)
    session = start_session(configuration, needs_s3a=True)
    yield session
    session.stop()


@pytest.fixture
def lakefs_name() -> Callable[[str], str]:
    """Names that no other test uses, for tasks."""
    return lambda prefix: f"{prefix}-{secrets.token_hex(4)}"
