"""What the driver of the Spark pipeline keeps while a workspace of any size goes through it.

The listing is made up at the port; every table, join and manifest is real. `bytes` of a row is
memory: the most the Python process had, and the heap of its JVM after a collection.
"""

import asyncio
import gc
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

from benchmarks.spark import FromSpark
from benchmarks.spark_rows import SyntheticObjects, open_synthetic
from benchmarks.transfer_rows import Row
from perago.adapters.spark.session import SparkConfiguration
from perago.adapters.spark.workspace_pipeline import SparkWorkspacePipeline
from perago.adapters.system import AsyncioConcurrency
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, StagedReference
from perago.ports.objects import Objects
from perago.ports.workspace import StagingArea, WorkspaceSource

PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
FORGET_PEAK = "5"


def driver_rows(place: Path, session: FromSpark, growth: tuple[int, ...]) -> Iterator[Row]:
    """One walk for each size; the first walk of all only warms the driver up."""
    asyncio.run(_walk(place / "driver-warm", session, growth[0]))
    for count in growth:
        yield from asyncio.run(_walk(place / f"driver-{count}", session, count))


async def _walk(room: Path, session: FromSpark, count: int) -> list[Row]:
    """Down, everything gone, planned, up, verified; the plan is read to its end."""
    directory = room / "attempt"
    directory.mkdir(parents=True)
    concurrency = AsyncioConcurrency()
    pipeline = SparkWorkspacePipeline(
        SparkConfiguration(),
        cast("Objects", SyntheticObjects(count)),
        partial(open_synthetic, count),
        concurrency,
        state_root=room / "state",
    )
    _forget_peak()
    began, heap = time.monotonic(), 0
    commit = CommitId("0" * 64)
    source = WorkspaceSource(RepositoryId("synthetic"), commit, "data")
    materialised = await pipeline.materialise(source, directory)
    heap = max(heap, _heap(session))
    plan = await pipeline.plan(materialised)
    heap = max(heap, _heap(session))
    area = StagingArea(StagedReference(source.repository, BranchName("staging"), commit), "data")
    await pipeline.transfer(materialised, plan, area)
    await pipeline.verify(materialised, plan, area)
    heap = max(heap, _heap(session))
    assert (materialised.counts.objects, sum(1 for _ in plan.delete)) == (count, count)
    seconds = round(time.monotonic() - began, 3)
    await pipeline.forget(materialised)
    concurrency.close()
    case = f"driver memory, {count:,} objects"
    print(f"  {case}: python {_peak() >> 20} MiB, heap {heap >> 20} MiB, {seconds} s", flush=True)
    return [
        Row(case, step, 0, "spark pipeline", seconds, None, size)
        for step, size in (("python", _peak()), ("heap", heap))
    ]


def _forget_peak() -> None:
    gc.collect()
    Path("/proc/self/clear_refs").write_text(FORGET_PEAK, encoding="ascii")


def _peak() -> int:
    (kilobytes,) = PEAK.findall(Path("/proc/self/status").read_text(encoding="ascii"))
    return int(kilobytes) * 1024


def _heap(session: FromSpark) -> int:
    jvm = session.sparkContext._jvm  # noqa: SLF001 - there is no other way
    jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory()) - int(runtime.freeMemory())
