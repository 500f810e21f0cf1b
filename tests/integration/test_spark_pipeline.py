"""The pipeline as Spark jobs where executors die, and where its keys must not be seen."""

import hashlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import pytest
import pytest_asyncio
from tests.contract.real_lakefs import RealLakeFS, connected
from tests.executor_killer import executor_killer
from tests.integration.spark_flow_scene import descendants
from tests.integration.worker_scene import process_file

from perago.adapters.spark.parts import OpenPartWork, PartWork
from perago.adapters.spark.session import SparkConfiguration
from perago.adapters.spark.workspace_pipeline import SparkWorkspacePipeline
from perago.adapters.system import AsyncioConcurrency
from perago.app.connections import LakeFSConnection
from perago.app.container import open_lakefs
from perago.app.pipeline_parts import open_part_work
from perago.domain.lakefs import BranchName, RepositoryId, StagedReference
from perago.domain.paths import md5_of_checksum
from perago.ports.workspace import StagingArea, TransferCounts, WorkspaceSource
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer
from perago_servers.http import ask

pytestmark = [
    pytest.mark.spark,
    pytest.mark.lakefs,
    pytest.mark.usefixtures("on_cluster"),
    pytest.mark.timeout(600),
]

# Some arrive in many pieces, so that a half could be seen.
FILES = {
    f"d{number % 9}/f{number:03}": f"{number} ".encode() * (1 if number % 100 else 2_000_000)
    for number in range(600)
}
CHANGED = {path: b"changed " + path.encode() for path in sorted(FILES)[::2]}
GONE = sorted(FILES)[1::20]
LEFT = {path: content for path, content in (FILES | CHANGED).items() if path not in GONE}
ROWS_WORTH_DYING_FOR = 100  # more than there are deletions
STAGING = BranchName("perago-staging-walk")
LOOK_SECONDS = 0.01
COMMAND_SECONDS = 0.1
PAGES = (
    "environment/",
    "jobs/",
    "stages/",
    "SQL/",
    "api/v1/applications/{id}/environment",
    "api/v1/applications/{id}/jobs",
    "api/v1/applications/{id}/stages?details=true",
    "api/v1/applications/{id}/sql?details=true",
    "api/v1/applications/{id}/allexecutors",
)
FromSpark: TypeAlias = Any  # sessions and what they hold
Step: TypeAlias = Callable[..., Iterator[object]]


@dataclass(frozen=True)
class Scene:
    """One workspace on a real lakeFS, and a pipeline that is given its executors' work."""

    harness: RealLakeFS
    server: LakefsServer
    repository: RepositoryId
    place: Path

    @property
    def open_work(self) -> OpenPartWork:
        """What executors are told."""
        connection = LakeFSConnection(
            url=self.server.endpoint,
            access_key_id=self.server.access_key_id,
            secret_access_key=self.server.secret_access_key,
        )
        return partial(open_part_work, open_lakefs, connection)

    async def walk(self, open_work: OpenPartWork) -> "Walk":
        """Down, changed, up and verified."""
        concurrency, state = AsyncioConcurrency(), self.place / "state"
        pipeline = SparkWorkspacePipeline(
            SparkConfiguration(), self.harness.objects, open_work, concurrency, state_root=state
        )
        files = {f"data/{path}": content for path, content in FILES.items()}
        commit = await self.harness.commit_files(self.repository, MAIN, files)
        directory = self.place / "attempt"
        directory.mkdir()
        source = WorkspaceSource(self.repository, commit, "data")
        with half_written(directory) as seen:
            materialised = await pipeline.materialise(source, directory)
        landed = local(directory)
        for path, content in CHANGED.items():
            (directory / path).write_bytes(content)
        for path in GONE:
            (directory / path).unlink()
        plan = await pipeline.plan(materialised)
        await self.harness.branches.create(self.repository, STAGING, commit)
        area = StagingArea(StagedReference(self.repository, STAGING, commit), "data")
        written = await pipeline.transfer(materialised, plan, area)
        await pipeline.verify(materialised, plan, area)
        tables = texts(state)
        await pipeline.forget(materialised)
        concurrency.close()
        return Walk(landed, seen, materialised.counts, written, tables)

    async def staged(self) -> dict[str, tuple[int, str | None]]:
        """Size and MD5 of everything on the staging branch."""
        page = await self.harness.objects.list_page(self.repository, STAGING, prefix="data/")
        assert not page.more
        return {
            entry.path[5:]: (entry.size, md5_of_checksum(entry.checksum)) for entry in page.items
        }


@dataclass(frozen=True)
class Walk:
    """What stood on the disk when a body would have begun, what was counted, and the tables."""

    landed: Mapping[str, bytes]
    half_written: list[str]
    fetched: TransferCounts
    written: TransferCounts
    tables: Mapping[str, str]


@pytest_asyncio.fixture
async def scene(
    lakefs_server: LakefsServer, tmp_path: Path, spark_session: object
) -> AsyncIterator[Scene]:
    """A fresh repository; the session is the one that the pipeline finds."""
    del spark_session
    async with connected(lakefs_server) as harness:
        yield Scene(harness, lakefs_server, await harness.create_repository(), tmp_path)


async def test_executors_that_die_on_both_ways_change_nothing(scene: Scene) -> None:
    marks = scene.place / "marks"
    marks.mkdir()
    walk = await scene.walk(in_halves(scene.open_work, executor_killer(marks)))

    assert {path.name for path in marks.iterdir()} == {"fetch", "write"}
    assert walk.half_written == []
    assert walk.landed == FILES
    assert (walk.fetched.objects, walk.fetched.bytes) == (len(FILES), size_of(FILES))
    left = {path: content for path, content in CHANGED.items() if path in LEFT}
    assert (walk.written.objects, walk.written.bytes) == (len(left), size_of(left))
    assert await scene.staged() == {path: facts(content) for path, content in LEFT.items()}


async def test_keys_are_in_no_log_page_table_or_command(
    scene: Scene, spark_session: FromSpark, spark_events: Path
) -> None:
    context = spark_session.sparkContext
    marks = scene.place / "marks"
    marks.mkdir()
    log = scene.place / "driver.log"
    with driver_log(spark_session, log), commands() as seen_commands:
        walk = await scene.walk(in_halves(scene.open_work, stumbler(marks)))

    home = Path(os.environ["SPARK_HOME"]) / "work" / context.applicationId
    seen = {
        "option": "\n".join(f"{name}={value}" for name, value in context.getConf().getAll()),
        "command": "\n".join(seen_commands),
        **named("driver", {"log": log.read_text()}),
        **named("executor", texts(home)),
        **named("event", texts(spark_events)),
        **named("table", walk.tables),
        **named("page", pages(context)),
    }
    for kind, mark in {
        "option": "spark.app.name",
        "command": "CoarseGrainedExecutorBackend",
        "driver": "stumbled over",
        "executor": "stumbled over",
        "event": "stumbled over",
        "table": '"upload"',
        "page": "stumbled over",
    }.items():
        assert any(mark in text for name, text in seen.items() if name.startswith(kind)), kind
    for key in (scene.server.secret_access_key, scene.server.access_key_id):
        assert [name for name, text in seen.items() if key in text] == []


def in_halves(open_work: OpenPartWork, between: Callable[[str], None]) -> OpenPartWork:
    """Work that is interrupted in the middle of a part: half of its rows done, and not told.

    Functions that are defined in here travel by value: executors have no tests.
    """

    def halved(work: Step, name: str) -> Step:
        def done(*given: Any) -> Iterator[object]:  # noqa: ANN401 - any step of a part
            *place, rows = given
            listed = list(rows)
            half = len(listed) // 2
            told = list(work(*place, listed[:half]))
            if half >= ROWS_WORTH_DYING_FOR:
                between(name)
            yield from told
            yield from work(*place, listed[half:])

        return done

    def opened() -> PartWork:
        work = open_work()
        interrupted = SimpleNamespace(
            list_range=work.list_range,
            fetch=halved(work.fetch, "fetch"),
            write=halved(work.write, "write"),
            changes=work.changes,
            check=work.check,
        )
        return cast("PartWork", interrupted)

    return opened


def stumbler(marks: Path) -> Callable[[str], None]:
    """Fails a Spark task once for each name, with a text that Spark shows wherever it can."""

    def stumble_once(name: str) -> None:
        if not (marks / name).exists():
            (marks / name).touch()
            raise RuntimeError(f"stumbled over {name}")

    return stumble_once


@contextmanager
def half_written(directory: Path) -> Generator[list[str]]:
    """Look again and again at what is visible; names of files that are odd or not whole."""
    seen: list[str] = []

    def look() -> None:
        for path in directory.rglob("*"):
            name = path.relative_to(directory).as_posix()
            try:
                is_whole = path.is_dir() or path.stat().st_size == len(FILES[name])
            except (FileNotFoundError, KeyError):
                is_whole = False
            if not is_whole:
                seen.append(name)

    with again_and_again(look, LOOK_SECONDS):
        yield seen


@contextmanager
def commands() -> Generator[set[str]]:
    """The command lines of every process below this one."""
    seen: set[str] = set()

    def look() -> None:
        for pid in descendants(os.getpid()):
            try:
                seen.add(process_file(pid, "cmdline").replace("\0", " "))
            except (FileNotFoundError, ProcessLookupError):
                continue

    with again_and_again(look, COMMAND_SECONDS):
        yield seen


@contextmanager
def again_and_again(look: Callable[[], None], seconds: float) -> Generator[None]:
    """Look in a thread until the block ends, and once more."""
    over = threading.Event()

    def follow() -> None:
        while not over.wait(seconds):
            look()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        look()


@contextmanager
def driver_log(session: FromSpark, place: Path) -> Generator[None]:
    """Everything that the driver's JVM logs, with its reasons, in a file."""
    log4j = session._jvm.org.apache.logging.log4j  # noqa: SLF001 - there is no other way
    layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%c %m%n%throwable").build()
    builder = log4j.core.appender.FileAppender.newBuilder()
    builder.setName("test").setLayout(layout).withFileName(str(place))
    appender = builder.build()
    appender.start()
    root = log4j.LogManager.getRootLogger()
    root.addAppender(appender)
    session.sparkContext.setLogLevel("INFO")
    try:
        yield
    finally:
        session.sparkContext.setLogLevel("WARN")
        root.removeAppender(appender)
        appender.stop()


def pages(context: FromSpark) -> dict[str, str]:
    """What the UI and its REST API show."""
    found: dict[str, str] = {}
    for page in PAGES:
        address = f"{context.uiWebUrl}/{page.format(id=context.applicationId)}"
        status, answer = ask("GET", address)
        assert status == HTTPStatus.OK, (address, status)
        found[page] = answer.decode()
    return found


def named(kind: str, found: Mapping[str, str]) -> dict[str, str]:
    """Texts under the name of where they are from."""
    return {f"{kind} {name}": text for name, text in found.items()}


def texts(directory: Path) -> dict[str, str]:
    """The texts of all files but jars."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.suffix != ".jar"]
    return {str(path): path.read_text(errors="replace") for path in files}


def local(directory: Path) -> dict[str, bytes]:
    """Every file of a directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def facts(content: bytes) -> tuple[int, str]:
    """Size and MD5."""
    return len(content), hashlib.md5(content, usedforsecurity=False).hexdigest()


def size_of(files: Mapping[str, Any]) -> int:
    """Bytes of all files."""
    return sum(len(content) for content in files.values())
