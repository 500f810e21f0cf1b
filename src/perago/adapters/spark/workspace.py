"""The workspace of one Spark attempt, and the block in which its body runs.

Leaving the block ends everything the body started: its job group and its streaming queries.
"""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from perago.adapters.spark.parts import input_uri, output_uri
from perago.adapters.spark.rows import WorkspaceReader
from perago.adapters.spark.session import SparkConfiguration, attempt_session
from perago.adapters.spark.up_jobs import JobWatch, cancel_jobs
from perago.domain.errors import OpenStreamError
from perago.domain.logical_execution import CommitId
from perago.ports.workspace import SparkRoots, SparkWorkspace, WriteMode

Report = Callable[[str, Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class SparkCall:
    """Whose jobs these are, how a revoked attempt is noticed, and where progress goes."""

    execution_id: str
    description: str
    cancelled: Callable[[], bool]
    report: Report


@contextmanager
def open_workspace(
    configuration: SparkConfiguration, roots: SparkRoots, call: SparkCall
) -> Generator[SparkWorkspace]:
    """Open the workspace for one task function, and end the jobs and streams that it leaves."""
    session = attempt_session(configuration, roots)
    context = getattr(session, "sparkContext", None) if hasattr(session, "_jsc") else None
    # Over Spark Connect the session is the attempt's alone, and so is everything that it runs.
    cancel = session.interruptAll
    if context is not None:
        context.setJobGroup(call.execution_id, call.description, interruptOnCancel=True)
        cancel = partial(cancel_jobs, context, call.execution_id)
    watch = JobWatch(context, call.execution_id, cancel, call.cancelled, call.report)
    follower = threading.Thread(target=watch.follow, daemon=True)
    follower.start()
    try:
        yield SessionWorkspace(session, roots)
        _refuse_open_streams(session)
    finally:
        watch.end()
        for query in session.streams.active:
            query.stop()
        cancel()


@final
class SessionWorkspace(SparkWorkspace):
    """A workspace seen through a session."""

    def __init__(self, session: Any, roots: SparkRoots) -> None:  # noqa: ANN401 - a pyspark session
        self._session = session
        self._roots = roots

    @property
    def spark(self) -> Any:  # noqa: ANN401 - a pyspark session
        return self._session

    @property
    def read(self) -> WorkspaceReader:
        return WorkspaceReader(self._session.read, self.uri)

    @property
    def input_ref(self) -> CommitId:
        return self._roots.input_ref

    @property
    def prefix(self) -> str:
        return self._roots.prefix

    def table(self, path: str, *, format: str = "parquet") -> Any:  # noqa: ANN401, A002 - pyspark's
        return self._session.read.format(format).load(self.uri(path))

    def uri(self, path: str) -> str:
        return input_uri(self._roots, path)

    def output(self, path: str) -> str:
        return output_uri(self._roots, path)

    def write(
        self,
        df: Any,  # noqa: ANN401 - a pyspark data frame
        path: str,
        mode: WriteMode = "overwrite",
        partition_by: Sequence[str] = (),
        *,
        format: str = "parquet",  # noqa: A002 - pyspark's own word
    ) -> None:
        writer = df.write.mode(mode).format(format)
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        writer.save(self.output(path))


def _refuse_open_streams(session: Any) -> None:  # noqa: ANN401 - a pyspark session
    active = [query.name or str(query.id) for query in session.streams.active]
    if active:
        raise OpenStreamError(active)
