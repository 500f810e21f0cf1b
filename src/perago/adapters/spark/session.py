"""The one Spark session of a process: checked, started by the first body, reused by the next.

Each attempt works in a session of its own on the same context, so that views and options of one
are not seen by another. Knows no workspace.
"""

import atexit
import os
import sys
import threading
from typing import Any

from perago.adapters.spark.configuration import DEFAULT_MASTER, SparkConfiguration
from perago.adapters.spark.hadoop_options import repository_options, session_options
from perago.adapters.spark.installation import read_facts
from perago.adapters.spark.jars import PROTOCOL_JAR, found_jars
from perago.adapters.spark.master import check_master
from perago.adapters.spark.versions import check_versions
from perago.domain.spark_errors import SparkSessionError
from perago.ports.spark_workspace import SparkPlace

CONNECT = "sc://"
_starting = threading.Lock()


def attempt_session(configuration: SparkConfiguration, place: SparkPlace) -> Any:  # noqa: ANN401
    """A session for one attempt, with the keys of its repository in Hadoop's configuration."""
    session = process_session(configuration, needs_s3a=place.gateway is not None).newSession()
    if place.gateway is not None:
        _set_keys(session, repository_options(place.repository, place.gateway))
    return session


def process_session(configuration: SparkConfiguration, *, needs_s3a: bool) -> Any:  # noqa: ANN401
    """The session of this process, started when there is none."""
    master = configuration.master or DEFAULT_MASTER
    with _starting:
        if master.startswith(CONNECT):
            return _connected_session(master)
        return _active_session() or start_session(configuration, needs_s3a=needs_s3a)


def _connected_session(master: str) -> Any:  # noqa: ANN401 - pyspark stays inside this package
    """A Spark Connect server has its own JVM, jars and options: nothing is compared here."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - half a second

    builder: Any = SparkSession.builder
    try:
        return builder.remote(master).getOrCreate()
    except Exception as error:
        raise SparkSessionError(master, first_line(error)) from error


def _active_session() -> Any:  # noqa: ANN401 - pyspark stays inside this package
    """What spark-submit, a notebook or an earlier body started in this process."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - half a second

    return SparkSession.getActiveSession() or _default_session(SparkSession)


def _default_session(kind: Any) -> Any:  # noqa: ANN401 - pyspark stays inside this package
    """The session of the process; the active one is a thread's own."""
    session = getattr(kind, "_instantiatedSession", None)
    alive = session is not None and session.sparkContext._jsc is not None  # noqa: SLF001
    return session if alive else None


def start_session(configuration: SparkConfiguration, *, needs_s3a: bool) -> Any:  # noqa: ANN401
    """Start the session of this process; raises when the machine or the master cannot."""
    jars = found_jars(configuration.cache)
    given = {
        name.rpartition("/")[2] for name in configuration.options.get("spark.jars", "").split(",")
    }
    names = {path.name for path in jars} | (given - {""})
    check_versions(read_facts(), names, needs_s3a=needs_s3a)
    options = session_options(
        configuration.options,
        jars=",".join(map(str, jars)),
        has_commit_protocol=PROTOCOL_JAR in names,
    )
    master = configuration.master or DEFAULT_MASTER
    check_master(master)
    if master.startswith("local"):
        # Python workers of this machine must be this Python, or UDFs miss their modules.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - half a second

    builder: Any = SparkSession.builder.master(master).appName("perago")
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise SparkSessionError(master, first_line(error)) from error
    atexit.register(_stop, session)
    return session


def stop_session() -> None:
    """Stop the session of this process, if there is one."""
    session = _active_session()
    if session is not None:
        session.stop()


def _set_keys(session: Any, options: dict[str, str]) -> None:  # noqa: ANN401
    """Into Hadoop's configuration, which travels with jobs; over Connect, into the session's."""
    context = getattr(session, "_jsc", None)
    if context is None:
        for name, value in options.items():
            session.conf.set(name, value)
        return
    hadoop = context.hadoopConfiguration()
    for name, value in options.items():
        hadoop.set(name, value)


def _stop(session: Any) -> None:  # noqa: ANN401 - pyspark stays inside this package
    session.stop()


def first_line(error: Exception) -> str:
    """What a failure of the JVM comes from, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by") or "Exception:" in line]
    return (causes or lines or [type(error).__name__])[-1]
