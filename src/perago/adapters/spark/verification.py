"""Reads every object of a commit on the executors and compares size and checksum.

The driver sees counts and the first damaged rows; all rows go to a Parquet report.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from perago.adapters.spark.configuration import SparkConfiguration
from perago.adapters.spark.session import process_session
from perago.domain.key_ranges import KeyRange, cut_keys
from perago.domain.object_checksum import md5_of_checksum
from perago.domain.references import CommitId, RepositoryId
from perago.ports.errors import WorldError
from perago.ports.installations import LakeFSInstallation
from perago.ports.objects import ObjectEntry, Objects

RANGES_PER_CORE = 4
DAMAGED_SHOWN_MAX = 20
READ_CHUNK = 1024 * 1024
SIDE_BY_SIDE = 8
SCHEMA = "path string, size long, checksum string, found_size long, found_md5 string, state string"
SOUND, UNCHECKED = "sound", "size only"

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


@dataclass(frozen=True, slots=True)
class Target:
    """Which objects are read."""

    repository: RepositoryId
    commit: CommitId
    prefix: str


def verify_objects(
    configuration: SparkConfiguration, open_lakefs: OpenLakeFS, target: Target, report: str
) -> Verified:
    """Run the job; `open_lakefs` travels to the executors, which ask the server themselves."""
    session = process_session(configuration, needs_s3a=False)
    cores = session.sparkContext.defaultParallelism
    ranges = asyncio.run(_cut(open_lakefs, target, cores * RANGES_PER_CORE))
    rows = session.sparkContext.parallelize(ranges, len(ranges)).flatMap(
        partial(_check_range, open_lakefs, target)
    )
    session.createDataFrame(rows, SCHEMA).write.mode("overwrite").parquet(report)
    return _summary(session, report)


def _summary(session: Any, report: str) -> Verified:  # noqa: ANN401 - a pyspark session
    from pyspark.sql.functions import count  # noqa: PLC0415 - half a second
    from pyspark.sql.functions import sum as total  # noqa: PLC0415 - half a second

    table = session.read.parquet(report)
    grouped = table.groupBy("state").agg(count("*").alias("objects"), total("size").alias("bytes"))
    counts = {row["state"]: (row["objects"], row["bytes"]) for row in grouped.collect()}
    bad = table.where(~table.state.isin(SOUND, UNCHECKED)).orderBy("path")
    shown = tuple(
        f"{row['path']}: {row['state']}" for row in bad.limit(DAMAGED_SHOWN_MAX).collect()
    )
    fine = {SOUND, UNCHECKED}
    return Verified(
        objects=sum(count for count, _ in counts.values()),
        bytes=sum(size for _, size in counts.values()),
        damaged=sum(count for state, (count, _) in counts.items() if state not in fine),
        size_only=counts.get(UNCHECKED, (0, 0))[0],
        shown=shown,
        report=report,
    )


async def _cut(open_lakefs: OpenLakeFS, target: Target, wanted: int) -> list[KeyRange]:
    lakefs = open_lakefs()

    async def next_key(after: str) -> str | None:
        page = await lakefs.objects.list_page(
            target.repository, target.commit, prefix=target.prefix, after=after, amount=1
        )
        return page.entries[0].path if page.entries else None

    try:
        return await cut_keys(next_key, target.prefix, wanted)
    finally:
        await lakefs.close()


def _check_range(open_lakefs: OpenLakeFS, target: Target, part: KeyRange) -> Iterator[Row]:
    """One range on one executor: page by page, some objects side by side."""
    with tempfile.TemporaryDirectory(prefix="perago-verify-") as scratch:
        yield from asyncio.run(_checked(open_lakefs, target, part, Path(scratch)))


async def _checked(
    open_lakefs: OpenLakeFS, target: Target, part: KeyRange, scratch: Path
) -> list[Row]:
    lakefs = open_lakefs()
    rows: list[Row] = []
    gate = asyncio.Semaphore(SIDE_BY_SIDE)

    async def check(number: int, entry: ObjectEntry) -> Row:
        async with gate:
            return await _check_object(lakefs.objects, target, entry, scratch / str(number))

    try:
        async for page in _pages(lakefs.objects, target, part):
            rows += await asyncio.gather(*(check(*each) for each in enumerate(page)))
    finally:
        await lakefs.close()
    return rows


async def _pages(
    objects: Objects, target: Target, part: KeyRange
) -> AsyncIterator[Iterable[ObjectEntry]]:
    after = part.after
    while True:
        page = await objects.list_page(
            target.repository, target.commit, prefix=target.prefix, after=after
        )
        mine = [entry for entry in page.entries if part.holds(entry.path)]
        yield mine
        if not page.more or len(mine) < len(page.entries):
            return
        after = page.entries[-1].path


async def _check_object(objects: Objects, target: Target, entry: ObjectEntry, place: Path) -> Row:
    try:
        await objects.download(target.repository, target.commit, entry.path, place)
    except WorldError as error:
        state = f"unreadable: {error}"
        return entry.path, entry.size, entry.checksum, -1, "", state
    size, md5 = await asyncio.to_thread(_read, place)
    return entry.path, entry.size, entry.checksum, size, md5, _state(entry, size, md5)


def _state(entry: ObjectEntry, size: int, md5: str) -> str:
    if size != entry.size:
        return f"expected {entry.size} bytes, found {size}"
    stated = md5_of_checksum(entry.checksum)
    if stated is None:
        return UNCHECKED
    return SOUND if stated == md5 else f"expected MD5 {stated}, found {md5}"


def _read(place: Path) -> tuple[int, str]:
    digest, size = hashlib.md5(usedforsecurity=False), 0
    with place.open("rb") as file:
        while chunk := file.read(READ_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    place.unlink()
    return size, digest.hexdigest()
