"""The Spark session of a pipeline step: its options, its job group, how wide its jobs are.

Every step works in a session of its own on the context of the process, so that no option of a
body or a report reaches it. An answer that is no refusal of ours becomes one error of the port.
"""

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, final

from perago.adapters.spark.configuration import SparkConfiguration
from perago.adapters.spark.part_work import OpenPartWork
from perago.adapters.spark.session import first_line, process_session
from perago.domain.errors import PeragoError
from perago.ports.concurrency import Concurrency
from perago.ports.errors import UnavailableError, WorldError

Answer = TypeVar("Answer")
_groups = itertools.count(1)

PARTS_PER_CORE = 2
ROWS_PER_PART_MIN = 500
ROWS_PER_PART = 20_000
BYTES_PER_PART_MIN = 64 * 1024**2
BYTES_PER_PART = 8 * 1024**3
ROWS_PER_JOINED_PART = 250_000
# A plan is written by tasks that may be done twice: a task's files are moved to their names when it
# is over. How wide a join is, is known beforehand; to find it out costs a job for each stage.
OPTIONS = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.sql.execution.datasources."
    "SQLHadoopMapReduceCommitProtocol",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.adaptive.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class PipelineSession:
    """A session, the cores it may use, and the work that executors do."""

    session: Any
    cores: int
    open_work: OpenPartWork

    @property
    def parts(self) -> int:
        """How many parts keep every core busy to the end."""
        return self.cores * PARTS_PER_CORE

    def parts_for(self, rows: int, size: int = 0) -> int:
        """As many parts as so many rows and bytes are worth."""
        wanted = max(-(-rows // ROWS_PER_PART), -(-size // BYTES_PER_PART))
        small = max(-(-rows // ROWS_PER_PART_MIN), -(-size // BYTES_PER_PART_MIN))
        return max(1, wanted, min(self.parts, small))

    def spread(self, items: list[Any], work: Callable[[Any], Any], parts: int = 0) -> Any:  # noqa: ANN401 - an RDD
        """The rows that executors make of each item, neighbours in one part."""
        wanted = max(1, min(len(items), parts or self.parts))
        return self.session.sparkContext.parallelize(items, wanted).flatMap(work)

    def join_in_parts(self, rows: int, *, at_least: int) -> None:
        """Joins of this session are as wide as so many rows are worth."""
        parts = max(at_least, rows // ROWS_PER_JOINED_PART)
        self.session.conf.set("spark.sql.shuffle.partitions", str(parts))


def spread_rows(frame: Any, parts: int) -> Any:  # noqa: ANN401 - frames
    """The same rows in so many parts; one part needs no exchange."""
    return frame.coalesce(1) if parts == 1 else frame.repartition(parts)


@final
class PipelineSessions:
    """Runs steps in threads, each under a job group that ends with it."""

    def __init__(
        self, configuration: SparkConfiguration, open_work: OpenPartWork, concurrency: Concurrency
    ) -> None:
        self._configuration = configuration
        self._open_work = open_work
        self._concurrency = concurrency

    async def run(self, description: str, step: Callable[[PipelineSession], Answer]) -> Answer:
        """Run one step; when nobody waits for it any more, its jobs are cancelled."""
        group = f"perago pipeline {next(_groups)}"
        opened: list[Any] = []

        def work() -> Answer:
            session = process_session(self._configuration, needs_s3a=False)
            context = session.sparkContext
            opened.append(context)
            context.setJobGroup(group, description, interruptOnCancel=True)
            return step(_own(session, self._open_work))

        try:
            return await self._concurrency.blocking(work)
        except (WorldError, PeragoError):
            raise
        except Exception as error:
            raise UnavailableError(f"Spark could not {description}: {first_line(error)}") from error
        except BaseException:
            for context in opened:
                with suppress(Exception):
                    context.cancelJobGroup(group)
            raise


def _own(
    session: Any,  # noqa: ANN401 - pyspark stays inside this package
    open_work: OpenPartWork,
) -> PipelineSession:
    cores = max(1, session.sparkContext.defaultParallelism)
    own = session.newSession()
    for name, value in OPTIONS.items():
        own.conf.set(name, value)
    own.conf.set("spark.sql.shuffle.partitions", str(cores * PARTS_PER_CORE))
    return PipelineSession(own, cores, open_work)
