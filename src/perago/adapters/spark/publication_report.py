"""What was published on a branch: a job over its history, counted by task and day.

The history is walked once by the driver, staged commits are read on the executors.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from perago.adapters.spark.configuration import SparkConfiguration
from perago.adapters.spark.session import process_session
from perago.adapters.spark.verification import Target
from perago.domain.commit_metadata import (
    CONFIRM,
    EXECUTION_ID,
    LOGICAL_TASK_KEY,
    PHASE,
    POLICY,
    RETRY_COUNT,
    STAGING_COMMIT,
    SUPERSEDES,
    TRY,
)
from perago.domain.references import CommitId, CommitRecord
from perago.ports.errors import WorldError
from perago.ports.installations import LakeFSInstallation

HISTORY_COMMITS_MAX = 1_000_000
SCHEMA = (
    "commit string, day string, task string, workflow string, policy string, retried boolean, "
    "replaced boolean, execution string, staged string"
)

OpenLakeFS = Callable[[], LakeFSInstallation]


@dataclass(frozen=True, slots=True)
class ReportedPublications:
    """Rows of (task, day, policy, publications, retries, adoptions, replacements)."""

    rows: tuple[tuple[str, str, str, int, int, int, int], ...]
    commits: int


def report_publications(
    configuration: SparkConfiguration, open_lakefs: OpenLakeFS, target: Target
) -> ReportedPublications:
    """Run the job.

    A publication is a retry's when its attempt had a retry count, an adoption when another
    execution had staged it, a replacement when it took the place of an abandoned one: by name
    under `lineage`, by relocation under `head-parent`, which leaves the staged commit itself.
    """
    session = process_session(configuration, needs_s3a=False)
    history = asyncio.run(_history(open_lakefs, target))
    rows = [row for record in history if (row := publication_row(record)) is not None]
    if not rows:
        return ReportedPublications((), len(history))
    slices = session.sparkContext.defaultParallelism
    staged = session.sparkContext.parallelize(rows, slices).mapPartitions(
        partial(_with_stager, open_lakefs, target)
    )
    table = session.createDataFrame(staged, f"{SCHEMA}, adopted boolean")
    return ReportedPublications(_counted(table), len(history))


def _counted(table: Any) -> tuple[tuple[str, str, str, int, int, int, int], ...]:  # noqa: ANN401
    from pyspark.sql.functions import count  # noqa: PLC0415 - half a second
    from pyspark.sql.functions import sum as total  # noqa: PLC0415 - half a second

    counted = table.selectExpr(
        "task",
        "day",
        "policy",
        "cast(retried as int) as retried",
        "cast(adopted as int) as adopted",
        "cast(replaced as int) as replaced",
    )
    grouped = counted.groupBy("task", "day", "policy").agg(
        count("*"), total("retried"), total("adopted"), total("replaced")
    )
    return tuple(sorted(tuple(row) for row in grouped.collect()))


async def _history(open_lakefs: OpenLakeFS, target: Target) -> tuple[CommitRecord, ...]:
    """First parents down to the root."""
    lakefs = open_lakefs()
    try:
        head = await lakefs.commits.read(target.repository, target.commit)
        if not head.parents:
            return (head,)
        # A goal above the start is never met, so that the walk runs to the root.
        walk = await lakefs.commits.first_parents(
            target.repository, head.parents[0], head.commit, commits_max=HISTORY_COMMITS_MAX
        )
        return (head, *walk.commits)
    finally:
        await lakefs.close()


def publication_row(record: CommitRecord) -> tuple[object, ...] | None:
    """One commit of the history as a row of the table; None for what is no publication."""
    metadata = record.metadata
    if metadata.get(PHASE) not in {CONFIRM, TRY}:
        return None
    workflow, _, rest = metadata.get(LOGICAL_TASK_KEY, "").partition("/")
    return (
        record.commit,
        _day(record.created_at),
        rest.rpartition("/")[0],
        workflow,
        metadata.get(POLICY, ""),
        metadata.get(RETRY_COUNT, "0") != "0",
        bool(metadata.get(SUPERSEDES)) or metadata[PHASE] == TRY,
        metadata.get(EXECUTION_ID, ""),
        metadata.get(STAGING_COMMIT, ""),
    )


def _with_stager(
    open_lakefs: OpenLakeFS, target: Target, rows: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Runs on an executor: whether another execution staged what was published."""

    async def read() -> list[tuple[Any, ...]]:
        lakefs = open_lakefs()
        try:
            return [(*row, await was_adopted(lakefs, target, row)) for row in rows]
        finally:
            await lakefs.close()

    yield from asyncio.run(read())


async def was_adopted(lakefs: LakeFSInstallation, target: Target, row: tuple[object, ...]) -> bool:
    """Whether another execution had staged what a publication's row says it published."""
    execution, staged = str(row[-2]), str(row[-1])
    if not staged:
        return False
    try:
        record = await lakefs.commits.read(target.repository, CommitId(staged))
    except WorldError:
        return False  # garbage collection took the staged commit
    return record.metadata.get(EXECUTION_ID, execution) != execution


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
