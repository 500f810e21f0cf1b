"""Whether this machine can run Spark, and the small session that the demonstration runs on.

Starts no JVM before it is asked to; pyspark may be missing.
"""

from collections.abc import Generator
from contextlib import contextmanager

from perago.adapters.spark.configuration import SparkConfiguration
from perago.adapters.spark.installation import read_facts
from perago.adapters.spark.session import process_session, stop_session
from perago.adapters.spark.versions import check_versions
from perago.domain.spark_errors import SparkEnvironmentError

QUIET = {
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def why_no_spark() -> SparkEnvironmentError | None:
    """What is missing here, or None."""
    try:
        check_versions(read_facts(), [], needs_s3a=False)
    except SparkEnvironmentError as problem:
        return problem
    return None


@contextmanager
def demo_session() -> Generator[None]:
    """The session that bodies of this process find."""
    process_session(SparkConfiguration(master="local[2]", options=QUIET), needs_s3a=False)
    try:
        yield
    finally:
        stop_session()
