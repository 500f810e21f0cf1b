"""The jobs of `perago verify` and `perago report publications`, run on executors.

`verify_objects` reads every object of a commit and compares size and checksum; all rows go to a
Parquet report, the driver sees counts and the first damaged ones. `report_publications` counts what
the history of a branch says of publications.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from perago.adapters.spark.parts import entries_of, key_finder
from perago.adapters.spark.session import SparkConfiguration, process_session
from perago.adapters.workspace.disk import md5_of_file
from perago.domain import commit_metadata
from perago.domain.key_ranges import KeyRange, cut_keys
from perago.domain.lakefs import CommitId, CommitRecord
from perago.domain.paths import listing_prefix, md5_of_checksum
from perago.ports.errors import DamagedObjectError, ServiceError
from perago.ports.installations import LakeFSInstallation
from perago.ports.objects import ObjectEntry, Objects
from perago.ports.workspace import WorkspaceSource

# Ranges are cut by names and say nothing of bytes: with one a core, the heaviest would be the time
# of the whole job.
RANGES_PER_CORE = 4
DAMAGED_SHOWN_MAX = 20  # a screen; the report has all of them
# Downloads of one range at a time: they wait for the server most of the time, and each has a file
# on the executor's disk until it is compared.
SIDE_BY_SIDE = 8
SCHEMA = "path string, size long, checksum string, found_size long, found_md5 string, state string"
SOUND, UNCHECKED = "sound", "size only"
HISTORY_COMMITS_MAX = 1_000_000  # the driver holds all of them, so there has to be an end
REPORT_SCHEMA = (
    "commit string, day string, task string, workflow string, policy string, retried boolean, "
    "replaced boolean, execution string, staged string"
)

OpenLakeFS = Callable[[], LakeFSInstallation]
Row = tuple[str, int, str, int, str, str]


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification found."""

    objects: int
    bytes: int
    damaged: int
    size_only: int
    shown: tuple[str, ...]
    report: str


def verify_objects(
    configuration: SparkConfiguration, open_lakefs: OpenLakeFS, source: WorkspaceSource, report: str
) -> Verified:
    """Run the job; `open_lakefs` travels to the executors, which ask the server themselves."""
    session = process_session(configuration, needs_s3a=False)
    cores = session.sparkContext.defaultParallelism
    ranges = asyncio.run(_cut(open_lakefs, source, cores * RANGES_PER_CORE))
    rows = session.sparkContext.parallelize(ranges, len(ranges)).flatMap(
        partial(_check_range, open_lakefs, source)
    )
    session.createDataFrame(rows, SCHEMA).write.mode("overwrite").parquet(report)
    return _summary(session, report)


def _summary(session: Any, report: str) -> Verified:  # noqa: ANN401 - a pyspark session
    table = session.read.parquet(report)
    grouped = table.groupBy("state").agg({"*": "count", "size": "sum"}).collect()
    counts = {row["state"]: (row["count(1)"], row["sum(size)"]) for row in grouped}
    fine = {SOUND, UNCHECKED}
    bad = table.where(~table.state.isin(*fine)).orderBy("path").limit(DAMAGED_SHOWN_MAX).collect()
    return Verified(
        objects=sum(count for count, _ in counts.values()),
        bytes=sum(size for _, size in counts.values()),
        damaged=sum(count for state, (count, _) in counts.items() if state not in fine),
        size_only=counts.get(UNCHECKED, (0, 0))[0],
        shown=tuple(f"{row['path']}: {row['state']}" for row in bad),
        report=report,
    )


async def _cut(open_lakefs: OpenLakeFS, source: WorkspaceSource, wanted: int) -> list[KeyRange]:
    lakefs = open_lakefs()
    try:
        prefix = listing_prefix(source.prefix)
        return await cut_keys(key_finder(lakefs.objects, source), prefix, wanted)
    finally:
        await lakefs.close()


def _check_range(open_lakefs: OpenLakeFS, source: WorkspaceSource, part: KeyRange) -> Iterator[Row]:
    """One range on one executor: page by page, some objects side by side."""
    with tempfile.TemporaryDirectory(prefix="perago-verify-") as scratch:
        yield from asyncio.run(_checked(open_lakefs, source, part, Path(scratch)))


async def _checked(
    open_lakefs: OpenLakeFS, source: WorkspaceSource, part: KeyRange, scratch: Path
) -> list[Row]:
    lakefs = open_lakefs()
    rows: list[Row] = []
    gate = asyncio.Semaphore(SIDE_BY_SIDE)

    async def check(number: int, entry: ObjectEntry) -> Row:
        async with gate:
            return await _check_object(lakefs.objects, source, entry, scratch / str(number))

    try:
        async for page in entries_of(lakefs.objects, source, part):
            rows += await asyncio.gather(*(check(*each) for each in enumerate(page)))
    finally:
        await lakefs.close()
    return rows


async def _check_object(
    objects: Objects, source: WorkspaceSource, entry: ObjectEntry, folder: Path
) -> Row:
    try:
        await objects.download(source.repository, source.commit, entry.path, folder)
    except DamagedObjectError as error:
        return entry.path, entry.size, entry.checksum, -1, "", f"damaged: {error}"
    except ServiceError as error:
        state = f"unreadable: {error}"
        return entry.path, entry.size, entry.checksum, -1, "", state
    size, md5 = await asyncio.to_thread(_read, folder)
    return entry.path, entry.size, entry.checksum, size, md5, _state(entry, size, md5)


def _state(entry: ObjectEntry, size: int, md5: str) -> str:
    if size != entry.size:
        return f"expected {entry.size} bytes, found {size}"
    stated = md5_of_checksum(entry.checksum)
    if stated is None:
        return UNCHECKED
    return SOUND if stated == md5 else f"expected MD5 {stated}, found {md5}"


def _read(file: Path) -> tuple[int, str]:
    found = file.stat().st_size, md5_of_file(file)
    file.unlink()
    return found


@dataclass(frozen=True, slots=True)
class ReportedPublications:
    """Rows of (task, day, policy, publications, retries, adoptions, replacements)."""

    rows: tuple[tuple[str, str, str, int, int, int, int], ...]
    commits: int


def report_publications(
    configuration: SparkConfiguration, open_lakefs: OpenLakeFS, source: WorkspaceSource
) -> ReportedPublications:
    """Run the job.

    A publication is a retry's when its attempt had a retry count, an adoption when another
    execution had staged it, a replacement when it took the place of an abandoned one: by name
    under `lineage`, by relocation under `head-parent`, which leaves the staged commit itself.
    """
    session = process_session(configuration, needs_s3a=False)
    history = asyncio.run(history_of(open_lakefs, source))
    rows = [row for record in history if (row := publication_row(record)) is not None]
    if not rows:
        return ReportedPublications((), len(history))
    slices = session.sparkContext.defaultParallelism
    staged = session.sparkContext.parallelize(rows, slices).mapPartitions(
        partial(_with_stager, open_lakefs, source)
    )
    table = session.createDataFrame(staged, f"{REPORT_SCHEMA}, adopted boolean")
    return ReportedPublications(_counted(table), len(history))


def _counted(table: Any) -> tuple[tuple[str, str, str, int, int, int, int], ...]:  # noqa: ANN401
    from pyspark.sql.functions import expr  # noqa: PLC0415 - half a second

    sums = (expr(f"count_if({name})") for name in ("retried", "adopted", "replaced"))
    grouped = table.groupBy("task", "day", "policy").agg(expr("count(*)"), *sums)
    return tuple(sorted(tuple(row) for row in grouped.collect()))


async def history_of(open_lakefs: OpenLakeFS, source: WorkspaceSource) -> tuple[CommitRecord, ...]:
    """First parents down to the root."""
    lakefs = open_lakefs()
    try:
        walk = await lakefs.commits.first_parents(
            source.repository, source.commit, None, commits_max=HISTORY_COMMITS_MAX
        )
        return walk.commits
    finally:
        await lakefs.close()


def publication_row(record: CommitRecord) -> tuple[object, ...] | None:
    """One commit of the history as a row of the table; None for what is no publication."""
    metadata = record.metadata
    if metadata.get(commit_metadata.PHASE) not in {commit_metadata.CONFIRM, commit_metadata.TRY}:
        return None
    workflow, _, rest = metadata.get(commit_metadata.LOGICAL_TASK_KEY, "").partition("/")
    return (
        record.commit,
        datetime.fromtimestamp(record.created_at, UTC).date().isoformat(),
        rest.rpartition("/")[0],
        workflow,
        metadata.get(commit_metadata.POLICY, ""),
        metadata.get(commit_metadata.RETRY_COUNT, "0") != "0",
        bool(metadata.get(commit_metadata.SUPERSEDES))
        or metadata[commit_metadata.PHASE] == commit_metadata.TRY,
        metadata.get(commit_metadata.EXECUTION_ID, ""),
        metadata.get(commit_metadata.STAGING_COMMIT, ""),
    )


def _with_stager(
    open_lakefs: OpenLakeFS, source: WorkspaceSource, rows: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Runs on an executor: whether another execution staged what was published."""

    async def read() -> list[tuple[Any, ...]]:
        lakefs = open_lakefs()
        try:
            return [(*row, await was_adopted(lakefs, source, row)) for row in rows]
        finally:
            await lakefs.close()

    yield from asyncio.run(read())


async def was_adopted(
    lakefs: LakeFSInstallation, source: WorkspaceSource, row: tuple[object, ...]
) -> bool:
    """Whether another execution had staged what a publication's row says it published."""
    execution, staged = str(row[-2]), str(row[-1])
    if not staged:
        return False
    try:
        record = await lakefs.commits.read(source.repository, CommitId(staged))
    except ServiceError:
        return False  # garbage collection took the staged commit
    return record.metadata.get(commit_metadata.EXECUTION_ID, execution) != execution
