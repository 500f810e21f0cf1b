"""The pipeline as Spark jobs beside the local one, and what its driver keeps as workspaces grow.

The second program of `make bench-spark`: it replaces its own rows in
`benchmarks/results/spark.json`. Its session, on executors that are other processes, takes a JVM
that nobody has configured otherwise.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.render_transfer import render
from benchmarks.spark import RESULT, ROOT, FromSpark
from benchmarks.spark_driver import driver_rows
from benchmarks.transfer_ground import Seeded, scratch_place, seed
from benchmarks.transfer_rows import Case, Row, middle
from perago.adapters.spark.session import SparkConfiguration, start_session
from perago.app.connections import Connections, LakeFSConnection
from perago.app.container import Container, open_lakefs
from perago.app.settings.settings import load_settings
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, StagedReference
from perago.ports.workspace import StagingArea, WorkspacePipeline, WorkspaceSource
from perago_servers import LakefsServer, lakefs_server, toxiproxy_server
from perago_servers.http import ask

MASTER = "local-cluster[2,1,1024]"
GROWTH = (10_000, 100_000, 1_000_000)
CHANGED_EACH = 100
ROUNDS = 5  # the first makes the JVM compile, and three of them left the median to chance
PIPELINE = "pipeline, {files:,} x 4 KiB"
OPERATIONS = ("GetObject", "UploadObject", "CopyObject")
KINDS = ("local", "spark")


@dataclass(frozen=True, slots=True)
class Line:
    """How the pipelines reach the server."""

    endpoint: str
    rtt_ms: int


def _measure(*, quick: bool) -> Iterator[Row]:
    """Measure both; the session is up before anything is counted."""
    files, growth = (2_000, GROWTH[:2]) if quick else (20_000, GROWTH)
    with scratch_place() as place, _session() as session:
        yield from _compared(place, files, 1 if quick else ROUNDS, (0,) if quick else (0, 20))
        yield from driver_rows(place, session, growth)


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


def _compared(place: Path, files: int, rounds: int, rtts: tuple[int, ...]) -> Iterator[Row]:
    """Each round on its own repository, nothing cached here; who is first changes."""
    seen: dict[tuple[int, str, str], list[Row]] = {}
    with lakefs_server() as server, toxiproxy_server() as proxies:
        for number in range(rounds):
            case = Case(PIPELINE.format(files=files), files, 4096, (), ())
            seeded = seed(server, case, place)
            shutil.rmtree(seeded.tree)
            for rtt in rtts:
                with proxies.distant(server.endpoint, rtt) as endpoint:
                    for kind in (KINDS, KINDS[::-1])[number % 2]:
                        room = place / f"{kind}-{number}-{rtt}"
                        for row in asyncio.run(_attempt(seeded, Line(endpoint, rtt), kind, room)):
                            _say(row)
                            seen.setdefault((rtt, row.step, row.subject), []).append(row)
                        shutil.rmtree(room, ignore_errors=True)
    yield from map(middle, seen.values())


def _say(row: Row) -> None:
    who = f"{row.rtt_ms:>2} ms  {row.subject:<16} {row.step:<8}"
    print(f"  {who} {row.seconds:7.2f} s {row.requests}", flush=True)


async def _attempt(seeded: Seeded, line: Line, kind: str, room: Path) -> list[Row]:
    """Down, one file in a hundred changed, planned, up and verified."""
    server, rows = seeded.server, list[Row]()
    pipeline = _pipeline(_connection(server, line.endpoint), kind, room)
    directory = room / "attempt"
    directory.mkdir(parents=True)
    repository, commit = RepositoryId(seeded.repository), CommitId(seeded.commit)
    subject = f"{kind} pipeline"

    async def step(name: str, work: Callable[[], Awaitable[Any]], size: int) -> Any:  # noqa: ANN401
        first, began = _object_requests(server), time.monotonic()
        done = await work()
        seconds = round(time.monotonic() - began, 3)
        requests = _object_requests(server) - first
        rows.append(Row(seeded.case.name, name, line.rtt_ms, subject, seconds, requests, size))
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
    branch = BranchName(f"perago-staging-{kind}-{line.rtt_ms}")
    direct = open_lakefs(_connection(server, server.endpoint))
    await direct.branches.create(repository, branch, commit)
    area = StagingArea(StagedReference(repository, branch, commit), "ws")
    await step("up", lambda: pipeline.transfer(materialised, plan, area), size)
    await step("verify", lambda: pipeline.verify(materialised, plan, area), size)
    await pipeline.forget(materialised)
    seconds = round(sum(row.seconds for row in rows), 3)
    requests = sum(row.requests or 0 for row in rows)
    return [
        *rows,
        Row(seeded.case.name, "all", line.rtt_ms, subject, seconds, requests, seeded.case.bytes),
    ]


def _connection(server: LakefsServer, endpoint: str) -> LakeFSConnection:
    return LakeFSConnection(
        url=endpoint,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )


def _pipeline(lakefs: LakeFSConnection, kind: str, room: Path) -> WorkspacePipeline:
    """As a worker would have it, by its setting."""
    said = {"PERAGO_WORKSPACE_ROOT": str(room), "PERAGO_PIPELINE": kind}
    settings = load_settings(cwd=room, process_env=said)
    return Container(connections=Connections(settings, lakefs)).pipeline()


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
    began = time.monotonic()
    rows = list(_measure(quick=quick))
    document = json.loads(RESULT.read_text(encoding="utf-8"))
    kept = [row for row in document["rows"] if not is_pipeline_case(row["case"])]
    document["rows"] = kept + [row.as_json() for row in rows]
    document["taken"]["pipeline_seconds"] = round(time.monotonic() - began)
    RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    render(RESULT.with_name("transfer.json"))
    print(f"{RESULT.relative_to(ROOT)}: {len(rows)} rows of {len(document['rows'])}")


def is_pipeline_case(case: str) -> bool:
    """Whether a row belongs to this module."""
    return case.startswith(("pipeline, ", "driver memory, "))


if __name__ == "__main__":
    main()
