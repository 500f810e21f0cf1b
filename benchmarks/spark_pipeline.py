"""The pipeline as Spark jobs beside the local one, and what its driver keeps as workspaces grow.

`pipeline_rows` gives rows for `benchmarks/results/spark.json`; as a program it replaces its own
rows there. It starts a session of its own, on executors that are other processes.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.servers import LakefsServer, lakefs_server
from tools.servers.http import ask

from benchmarks.spark import RESULT, ROOT, FromSpark
from benchmarks.spark_driver import driver_rows
from benchmarks.transfer_ground import Seeded, seed
from benchmarks.transfer_rows import Case, Row
from perago.adapters.spark.configuration import SparkConfiguration
from perago.adapters.spark.session import start_session
from perago.app.connections import Connections, LakeFSConnection, PipelineTerms, TransferTerms
from perago.app.container import Container, open_lakefs
from perago.domain.references import BranchName, CommitId, RepositoryId, StagedReference
from perago.ports.workspace_pipeline import StagingArea, WorkspacePipeline, WorkspaceSource

MASTER = "local-cluster[2,1,1024]"
GROWTH = (10_000, 100_000, 1_000_000)
CHANGED_EACH = 100
PIPELINE = "pipeline, {files:,} x 4 KiB"
OPERATIONS = ("GetObject", "UploadObject", "CopyObject")


def pipeline_rows(*, quick: bool = False, rounds: int = 3) -> Iterator[Row]:
    """Measure both; the session is up before anything is counted."""
    files, growth = (2_000, GROWTH[:2]) if quick else (20_000, GROWTH)
    with TemporaryDirectory(prefix="perago-bench-") as place, _session() as session:
        yield from _compared(Path(place), files, 1 if quick else rounds)
        yield from driver_rows(Path(place), session, growth)


@contextmanager
def _session() -> Generator[FromSpark]:
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
    }
    session = start_session(SparkConfiguration(master=MASTER, options=options), needs_s3a=False)
    try:
        session.range(0, 100, 1, 4).rdd.map(str).count()  # the executors are there
        yield session
    finally:
        session.stop()


def _compared(place: Path, files: int, rounds: int) -> Iterator[Row]:
    """Each round on its own repository and cold: no cache of contents, no manifest."""
    seen: dict[tuple[str, str], list[Row]] = {}
    with lakefs_server() as server:
        for number in range(rounds):
            for kind in ("local", "spark"):
                case = Case(PIPELINE.format(files=files), files, 4096, (), ())
                seeded = seed(server, case, place)
                room = place / f"{kind}-{number}"
                for row in asyncio.run(_attempt(seeded, kind, room)):
                    print(f"  {row.subject:<16} {row.step:<8} {row.seconds:7.2f} s {row.requests}")
                    seen.setdefault((row.subject, row.step), []).append(row)
    for rows in seen.values():
        middle = statistics.median_low([row.seconds for row in rows])
        yield next(row for row in rows if row.seconds == middle)


async def _attempt(seeded: Seeded, kind: str, room: Path) -> list[Row]:
    """Down, one file in a hundred changed, planned, up and verified."""
    server, rows = seeded.server, list[Row]()
    pipeline = _pipeline(server, kind, room)
    directory = room / "attempt"
    directory.mkdir(parents=True)
    repository, commit = RepositoryId(seeded.repository), CommitId(seeded.commit)
    whole = time.monotonic()
    before = _object_requests(server)

    async def step(name: str, work: Callable[[], Awaitable[Any]], size: int) -> Any:  # noqa: ANN401
        began, first = time.monotonic(), _object_requests(server)
        done = await work()
        seconds = round(time.monotonic() - began, 3)
        requests = _object_requests(server) - first
        rows.append(Row(seeded.case.name, name, 0, f"{kind} pipeline", seconds, requests, size))
        return done

    source = WorkspaceSource(repository, commit, "ws")
    materialised = await step(
        "down", lambda: pipeline.materialise(source, directory), seeded.case.bytes
    )
    changed = sorted(directory.rglob("*.bin"))[::CHANGED_EACH]
    for path in changed:
        path.write_bytes(os.urandom(seeded.case.size))
    size = len(changed) * seeded.case.size
    plan = await step("plan", lambda: pipeline.plan(materialised), size)
    branch = BranchName(f"perago-staging-{kind}")
    await open_lakefs(_connection(server)).branches.create(repository, branch, commit)
    area = StagingArea(StagedReference(repository, branch, commit), "ws")
    await step("up", lambda: pipeline.transfer(materialised, plan, area), size)
    await step("verify", lambda: pipeline.verify(materialised, plan, area), size)
    requests = _object_requests(server) - before
    seconds = round(time.monotonic() - whole, 3)
    rows.append(
        Row(seeded.case.name, "all", 0, f"{kind} pipeline", seconds, requests, seeded.case.bytes)
    )
    await pipeline.forget(materialised)
    return rows


def _connection(server: LakefsServer) -> LakeFSConnection:
    return LakeFSConnection(
        url=server.endpoint,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )


def _pipeline(server: LakefsServer, kind: str, room: Path) -> WorkspacePipeline:
    """As a worker would have it, by its setting."""
    container = Container(
        connections=Connections(
            workspace_root=room,
            lakefs=_connection(server),
            transfer=TransferTerms(),
            pipeline=PipelineTerms(kind=kind),
        )
    )
    return container.pipeline()


def _object_requests(server: LakefsServer) -> int:
    """Requests for one object each that the server has answered."""
    _, answer = ask("GET", f"{server.endpoint}/metrics")
    counted = 0
    for operation in OPERATIONS:
        pattern = rf'^api_request_duration_seconds_count{{.*operation="{operation}".*}} (\d+)$'
        counted += sum(map(int, re.findall(pattern, answer.decode(), re.MULTILINE)))
    return counted


def main() -> None:
    """Put the rows of this module in place of those that stand in the result."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="one round, fewer objects")
    quick = arguments.parse_args().quick
    rows = list(pipeline_rows(quick=quick))
    document = json.loads(RESULT.read_text(encoding="utf-8"))
    kept = [row for row in document["rows"] if not is_pipeline_case(row["case"])]
    document["rows"] = kept + [row.as_json() for row in rows]
    RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{RESULT.relative_to(ROOT)}: {len(rows)} rows of {len(document['rows'])}")


def is_pipeline_case(case: str) -> bool:
    """Whether a row belongs to this module."""
    return case.startswith(("pipeline, ", "driver memory, "))


if __name__ == "__main__":
    main()
