"""`make bench-spark`: what a commit protocol costs on lakeFS, beside a write to local disk.

One session, every protocol in turn, the median of some rounds. Writes
`benchmarks/results/spark.json` anew and renders it; `benchmarks.spark_pipeline` adds its rows.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.render_transfer import render
from benchmarks.transfer_ground import create_repository
from benchmarks.transfer_rows import Row, middle
from perago.adapters.spark.jars import COMMIT_PROTOCOL, fetch_jars, repository_options
from perago.adapters.spark.session import SparkConfiguration, start_session
from perago.ports.workspace import SparkGateway
from perago_servers import LakefsServer, lakefs_server, toxiproxy_server
from perago_servers.http import ask
from perago_servers.ivy import spark_jars

FromSpark: TypeAlias = Any  # sessions and frames
ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "spark.json"
PARTITIONS = 64
ROWS = 64 * 20_000
SQL = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
CLOUD = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
PARQUET = "spark.sql.parquet.output.committer.class"
PLAIN = "org.apache.parquet.hadoop.ParquetOutputCommitter"
BINDING = "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter"
FILE_VERSION = "mapreduce.fileoutputcommitter.algorithm.version"
FACTORY = "mapreduce.outputcommitter.factory.scheme.s3a"
S3A_FACTORY = "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"


@dataclass(frozen=True, slots=True)
class Subject:
    """A commit protocol by its options; `tuned` has our S3A options, the others S3A's own.

    A slow one has one round, whatever the others have.
    """

    name: str
    options: Mapping[str, str]
    tuned: bool = True
    slow: bool = False


def _file(version: str) -> dict[str, str]:
    return {"spark.sql.sources.commitProtocolClass": SQL, PARQUET: PLAIN, FILE_VERSION: version}


def _s3a(name: str) -> dict[str, str]:
    options = {"spark.sql.sources.commitProtocolClass": CLOUD, PARQUET: BINDING}
    return {**options, FACTORY: S3A_FACTORY, "fs.s3a.committer.name": name}


SUBJECTS = (
    Subject("default (FileOutputCommitter v1)", _file("1"), tuned=False, slow=True),
    Subject("FileOutputCommitter v2, tuned S3A", _file("2")),
    Subject("S3A directory, tuned S3A", _s3a("directory")),
    Subject("S3A magic, tuned S3A", _s3a("magic"), slow=True),
    Subject("perago", {"spark.sql.sources.commitProtocolClass": COMMIT_PROTOCOL, PARQUET: PLAIN}),
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="one round")
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    began = time.monotonic()
    rounds = 1 if given.quick else given.rounds
    with ExitStack() as stack:
        rows = list(_measure(stack, rounds))
    taken = {"cpus": os.cpu_count(), "machine": platform.machine()}
    taken |= {"python": platform.python_version(), "quick": given.quick}
    taken["seconds"] = round(time.monotonic() - began)
    RESULT.parent.mkdir(exist_ok=True)
    document = {"taken": taken, "rows": [row.as_json() for row in rows]}
    RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    render(RESULT.with_name("transfer.json"))
    print(f"{RESULT.relative_to(ROOT)}: {len(rows)} rows")


def _measure(stack: ExitStack, rounds: int) -> Iterator[Row]:
    server = stack.enter_context(lakefs_server())
    proxies = stack.enter_context(toxiproxy_server())
    slow = stack.enter_context(proxies.proxied(server.endpoint))
    slow.add_toxic("latency", latency=20)
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="perago-bench-")))
    session = _session(place)
    stack.callback(session.stop)
    frame = session.range(0, ROWS, 1, PARTITIONS).selectExpr(
        "id", "id * 7 % 1000 as customer", "concat('order ', id % 100) as text"
    )
    endpoints = {0: server.endpoint, 20: slow.endpoint}
    targets = {
        (rtt, tuned): _repository(session, server, endpoint, rtt=rtt, tuned=tuned)
        for rtt, endpoint in endpoints.items()
        for tuned in (True, False)
    }
    seen: dict[tuple[int, str], list[Row]] = {}
    for path in (f"file://{place}/warm", f"{targets[0, True]}warm"):  # the JVM gets warm
        for _ in range(2):
            _write(frame, path)
    for number in range(rounds):
        subjects = [subject for subject in SUBJECTS if number == 0 or not subject.slow]
        # Spark's own committer cannot clear a table at the root of a branch: a new name a round.
        ends = {key: f"{target}{number}-" for key, target in targets.items()}
        for row in _round(session, frame, ends, (place, server), subjects):
            seen.setdefault((row.rtt_ms, row.subject), []).append(row)
    yield from map(middle, seen.values())


def _round(
    session: FromSpark,
    frame: FromSpark,
    targets: Mapping[tuple[int, bool], str],
    ground: tuple[Path, LakefsServer],
    subjects: Sequence[Subject],
) -> Iterator[Row]:
    place, server = ground
    for rtt in (0, 20):
        _choose(session, _file("1"))
        local = f"file://{place}/local"
        yield _row(rtt, "local disk", partial(_write, frame, local), server)
        for subject in subjects:
            _choose(session, subject.options)
            path = f"{targets[rtt, subject.tuned]}{subject.name.replace(' ', '-')}"
            row = _row(rtt, subject.name, partial(_write, frame, path), server)
            assert session.read.parquet(path).count() == ROWS, subject.name
            print(
                f"  {rtt:>2} ms  {subject.name:<36} {row.seconds:6.2f} s {row.requests}", flush=True
            )
            yield row
        yield _row(rtt, "local disk", partial(_write, frame, local), server)


def _row(rtt: int, subject: str, write: Callable[[], None], server: LakefsServer) -> Row:
    before = _requests(server)
    began = time.monotonic()
    write()
    seconds = round(time.monotonic() - began, 3)
    requests = _requests(server) - before
    return Row("64 partitions", "write", rtt, subject, seconds, requests, ROWS * 24)


def _write(frame: FromSpark, path: str) -> None:
    frame.write.mode("overwrite").parquet(path)


def _choose(session: FromSpark, options: Mapping[str, str]) -> None:
    hadoop = session._jsc.hadoopConfiguration()  # noqa: SLF001 - there is no other way
    hadoop.unset(FACTORY)
    for name, value in options.items():
        if name.startswith("spark."):
            session.conf.set(name, value)
        else:
            hadoop.set(name, value)


def _session(place: Path) -> FromSpark:
    fetch_jars()
    cloud = next(spark_jars().glob("spark-hadoop-cloud*.jar"))
    options = {
        "spark.jars": str(cloud),
        "spark.hadoop.fs.s3a.committer.tmp.path": f"file://{place}/committer",
        "spark.hadoop.fs.s3a.committer.staging.tmp.path": f"file://{place}/staging",
        "spark.hadoop.fs.s3a.buffer.dir": f"{place}/buffer",
        "spark.hadoop.fs.s3a.committer.staging.conflict-mode": "replace",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    return start_session(SparkConfiguration(master="local[2]", options=options), needs_s3a=True)


def _repository(
    session: FromSpark, server: LakefsServer, endpoint: str, *, rtt: int, tuned: bool
) -> str:
    name = f"bench-{rtt}-{'tuned' if tuned else 'plain'}-{os.urandom(3).hex()}"
    create_repository(server, name)
    gateway = SparkGateway(endpoint, server.access_key_id, server.secret_access_key)
    options = repository_options(name, gateway)
    own = ("expect.continue", "performance", "bucket.probe", "change.detection")
    hadoop = session._jsc.hadoopConfiguration()  # noqa: SLF001 - there is no other way
    for option, value in options.items():
        if tuned or not any(part in option for part in own):
            hadoop.set(option, value)
    return f"s3a://{name}/main/"


def _requests(server: LakefsServer) -> int:
    """Requests the gateway has answered so far, as lakeFS counts them."""
    _, answer = ask("GET", f"{server.endpoint}/metrics")
    counted = 0.0
    for line in answer.decode().splitlines():
        if line.startswith("gateway_request_duration_seconds_count"):
            counted += float(line.rpartition(" ")[2])
    return int(counted)


if __name__ == "__main__":
    main()
