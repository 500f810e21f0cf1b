"""The Spark session of this process: how it is found, started and stopped.

`process_session` finds or starts the one session of a process; `attempt_session` gives an attempt
its own, with the keys of its repository. `check_master` asks a standalone master before a JVM is
started, because Spark takes a minute to give up and then ends the session under the task function
that uses it.
"""

import atexit
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perago.adapters.spark import jars
from perago.domain.errors import SparkSessionError
from perago.ports.workspace import SparkRoots

DEFAULT_MASTER = "local[*]"  # every core: an executor of Perago runs one task function at a time
# A master of several processes on this machine. It writes its work into SPARK_HOME, so it gets a
# home of links: its files stood beside pyspark's jars for ever.
CLUSTER = "local-cluster"
CLUSTER_WORK = "work"  # the one folder that a local cluster writes into SPARK_HOME
CONNECT = "sc://"
STANDALONE = "spark://"
MASTER_SECONDS = 5.0  # for one TCP connection; Spark itself would try for a minute
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # how spark-submit tells a program where its JVM listens
_starting = threading.Lock()  # two starts side by side would be two JVMs, and Spark has one


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfiguration:
    """Plain values; None takes Spark's own default."""

    master: str | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])


def attempt_session(configuration: SparkConfiguration, roots: SparkRoots) -> Any:  # noqa: ANN401
    """A session for one attempt, with the keys of its repository in Hadoop's configuration."""
    session = process_session(configuration, needs_s3a=roots.gateway is not None).newSession()
    if roots.gateway is not None:
        _set_keys(session, jars.repository_options(roots.repository, roots.gateway))
    return session


def process_session(configuration: SparkConfiguration, *, needs_s3a: bool) -> Any:  # noqa: ANN401
    """The session of this process, started when there is none."""
    jars.require_pyspark()
    with _starting:
        if configuration.master is not None and configuration.master.startswith(CONNECT):
            return _connected_session(configuration.master)
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
    """What spark-submit, a notebook or an earlier task function started in this process.

    The active session is a thread's own; behind it is the session of the process.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - half a second

    kind: Any = SparkSession
    active = kind.getActiveSession()
    if active is not None:
        return active
    session = getattr(kind, "_instantiatedSession", None)
    alive = session is not None and session.sparkContext._jsc is not None  # noqa: SLF001
    return session if alive else None


def start_session(configuration: SparkConfiguration, *, needs_s3a: bool) -> Any:  # noqa: ANN401
    """Start the session of this process; raises when the machine or the master cannot."""
    submitted = _submitted_options()
    given = {**submitted, **configuration.options}
    # The JVM of spark-submit has begun with its own class path.
    fetched = [] if submitted else jars.found_jars()
    names = {path.name for path in fetched} | jars.named_jars(given)
    jars.check_versions(jars.read_facts(), names, needs_s3a=needs_s3a)
    options = jars.session_options(
        given, jars=",".join(map(str, fetched)), has_commit_protocol=jars.PROTOCOL_JAR in names
    )
    master = configuration.master or submitted.get("spark.master", DEFAULT_MASTER)
    check_master(master)
    if master.startswith("local"):
        # Python workers of this machine must be this Python, or UDFs miss their modules.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith(CLUSTER) and jars.HOME not in os.environ:
        os.environ[jars.HOME] = str(scratch_home())
    from pyspark.sql import SparkSession  # noqa: PLC0415 - half a second

    builder: Any = SparkSession.builder.master(master).appName("perago")
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise SparkSessionError(master, first_line(error)) from error
    atexit.register(session.stop)
    return session


def check_master(master: str) -> None:
    """Raise SparkSessionError when no host of a standalone master answers."""
    if not master.startswith(STANDALONE):
        return
    reasons: list[str] = []
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=MASTER_SECONDS):
                return
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {error}")
    raise SparkSessionError(master, "; ".join(reasons))


def scratch_home(installed: Path | None = None) -> Path:
    """A directory with links to all of the installed pyspark; it goes with this process."""
    home = Path(tempfile.mkdtemp(prefix="perago-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for each in (installed or jars.pyspark_jars().parent).iterdir():
        if each.name != CLUSTER_WORK:
            (home / each.name).symlink_to(each)
    return home


def _submitted_options() -> dict[str, str]:
    """What spark-submit was given, when it has started this program; nothing otherwise."""
    if SUBMITTED not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - half a second

    context: Any = SparkContext
    context._ensure_initialized()  # noqa: SLF001 - the options are asked of its JVM
    return dict(SparkConf().getAll())


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


def first_line(error: Exception) -> str:
    """What a failure of the JVM comes from, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by") or "Exception:" in line]
    return (causes or lines or [type(error).__name__])[-1]
