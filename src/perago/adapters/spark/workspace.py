"""The workspace of one Spark attempt, and the block in which its task function runs.

Paths are relative to the prefix: read at the input commit, written on the private branch. While the
task function runs, its jobs are watched: they are cancelled when the attempt is told to stop, and
their progress is reported. Leaving the block ends everything that it started, its job group and its
streaming queries.
"""

import itertools
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from perago.adapters.spark.session import SparkConfiguration, attempt_session
from perago.domain.errors import OpenStreamError, ReadOnlyWorkspaceError, SparkPathError
from perago.domain.lakefs import CommitId
from perago.domain.paths import listing_prefix
from perago.ports.workspace import SparkRoots, SparkWorkspace, WriteMode

PAUSE_SECONDS = 1.0  # at the longest a cancelled attempt's jobs go on so much longer
REPORT_EVERY = 5  # looks: a line each second would drown the log of a job of hours


@dataclass(frozen=True, slots=True)
class SparkCall:
    """Whose jobs these are, how a revoked attempt is noticed, and where progress goes."""

    execution_id: str
    description: str
    cancelled: Callable[[], bool]
    report: Callable[[str, Mapping[str, object]], None]


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
    ended = threading.Event()
    threading.Thread(target=_watch, args=(context, call, cancel, ended), daemon=True).start()
    try:
        yield SessionWorkspace(session, roots)
        if streams := [query.name or str(query.id) for query in session.streams.active]:
            raise OpenStreamError(streams)
    finally:
        ended.set()
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
    def read(self) -> "WorkspaceReader":
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


@final
class WorkspaceReader:
    """Options are passed on; paths are turned into URIs at the input commit."""

    def __init__(self, reader: Any, uri: Callable[[str], str]) -> None:  # noqa: ANN401
        self._reader = reader
        self._uri = uri

    def format(self, source: str) -> "WorkspaceReader":
        """The format of `load`."""
        return WorkspaceReader(self._reader.format(source), self._uri)

    def schema(self, schema: Any) -> "WorkspaceReader":  # noqa: ANN401 - pyspark's
        """The expected schema."""
        return WorkspaceReader(self._reader.schema(schema), self._uri)

    def option(self, key: str, value: Any) -> "WorkspaceReader":  # noqa: ANN401 - pyspark's
        """One option of the format."""
        return WorkspaceReader(self._reader.option(key, value), self._uri)

    def options(self, **options: Any) -> "WorkspaceReader":  # noqa: ANN401 - pyspark's
        """Options of the format."""
        return WorkspaceReader(self._reader.options(**options), self._uri)

    def load(self, path: str | Sequence[str], **options: Any) -> Any:  # noqa: ANN401
        """Read what `format` said."""
        return self._reader.load(self._uris(path), **options)

    def parquet(self, *paths: str, **options: Any) -> Any:  # noqa: ANN401 - pyspark's
        """Read Parquet."""
        return self._reader.parquet(*map(self._uri, paths), **options)

    def orc(self, path: str | Sequence[str], **options: Any) -> Any:  # noqa: ANN401 - pyspark's
        """Read ORC."""
        return self._reader.orc(self._uris(path), **options)

    def json(self, path: str | Sequence[str], **options: Any) -> Any:  # noqa: ANN401 - pyspark's
        """Read JSON lines."""
        return self._reader.json(self._uris(path), **options)

    def csv(self, path: str | Sequence[str], **options: Any) -> Any:  # noqa: ANN401 - pyspark's
        """Read CSV."""
        return self._reader.csv(self._uris(path), **options)

    def text(self, path: str | Sequence[str], **options: Any) -> Any:  # noqa: ANN401 - pyspark's
        """Read lines."""
        return self._reader.text(self._uris(path), **options)

    def _uris(self, path: str | Sequence[str]) -> str | list[str]:
        return self._uri(path) if isinstance(path, str) else [self._uri(each) for each in path]


def input_uri(roots: SparkRoots, path: str) -> str:
    """What Spark opens at the input commit."""
    return f"{roots.input_root}{listing_prefix(roots.prefix)}{_inside(path)}"


def output_uri(roots: SparkRoots, path: str) -> str:
    """What Spark opens on the private branch."""
    inside = _inside(path)
    if roots.output_root is None:
        raise ReadOnlyWorkspaceError(path)
    return f"{roots.output_root}{listing_prefix(roots.prefix)}{inside}"


def _inside(path: str) -> str:
    """A trailing slash is fine; everything that could lead out is not.

    Hadoop reads what stands before a colon in the first segment as a scheme, such as `file:`. No
    object may have a backslash in its name (`name_problem`).
    """
    stripped = path.rstrip("/")
    segments = stripped.split("/")
    if (
        not stripped
        or "\\" in path
        or ":" in segments[0]
        or not {"", ".", ".."}.isdisjoint(segments)
    ):
        raise SparkPathError(path)
    return stripped


def cancel_jobs(context: Any, group: str) -> None:  # noqa: ANN401 - a SparkContext
    """Cancel what runs; Spark warns of a group without a job, which is how most bodies end."""
    tracker = context.statusTracker()
    if not {*tracker.getJobIdsForGroup(group)}.isdisjoint(tracker.getActiveJobsIds()):
        context.cancelJobGroup(group)


def _watch(
    context: Any,  # noqa: ANN401 - a SparkContext, or None over Spark Connect
    call: SparkCall,
    cancel: Callable[[], object],
    ended: threading.Event,
) -> None:
    """Look once a second until the task function has ended; runs in a thread of its own."""
    last: Mapping[str, object] = {}
    for look in itertools.count(1):
        if ended.wait(PAUSE_SECONDS):
            return
        if call.cancelled():
            cancel()
            return
        if context is not None and look % REPORT_EVERY == 0:
            seen = _progress(context, call.execution_id)
            if seen and seen != last:
                last = seen
                call.report("spark", seen)


def _progress(context: Any, group: str) -> Mapping[str, object]:  # noqa: ANN401 - a SparkContext
    """How far the jobs of a group are; progress that cannot be read ends no task function."""
    try:
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [
            tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds
        ]
        known = [stage for stage in stages if stage is not None]
        if not known:
            return {}
        return {
            "jobs": len(jobs),
            "tasks": sum(stage.numTasks for stage in known),
            "tasks_done": sum(stage.numCompletedTasks for stage in known),
            "tasks_failed": sum(stage.numFailedTasks for stage in known),
        }
    except Exception as error:  # noqa: BLE001 - py4j raises its own
        return {"unknown": type(error).__name__}
