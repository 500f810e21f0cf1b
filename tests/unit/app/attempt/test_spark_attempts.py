"""A Spark attempt without Spark: the body writes to its private branch as an executor would."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import pytest
from pydantic import BaseModel
from tests.attempt_workers import AttemptWorker
from tests.people import reset_hard
from tests.unit.app.attempt.attempt_harness import AttemptHarness, reason_of
from tests.unit.app.attempt.attempt_scene import TASK
from tests.unit.app.gc.gc_scene import collect, litter

from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.errors import OutsidePrefixError, StaleAttemptError
from perago.domain.lakefs import CommitId
from perago.domain.policy import PolicySetting
from perago.ports.task_body import BodyCall, BodyOutcome, BodyReturned, Changes, TaskBody
from perago.ports.workspace import Phase, SparkGateway, SparkRoots, SparkWorkspace
from perago.testing.faults import ANY_CALL, Fault, Moment, Outage, Side, crash, meanwhile

POLICIES = [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE, PolicySetting.SETTLED]
OUTAGE_SECONDS = 20.0
GATEWAY = SparkGateway("http://lakefs.invalid", "key", "secret")


class Params(BaseModel):
    """Nothing to choose."""


class Done(BaseModel):
    """Nothing to say."""


@task(name=TASK, owner_email="data@example.com", workspace=WorkspaceSpec(prefix="data"))
def spark_task(workspace: SparkWorkspace, params: Params) -> Done:
    """Never called: `WritingBody` stands for it."""
    raise AssertionError(workspace, params)


@final
@dataclass
class WritingBody(TaskBody):
    """Writes these objects, and does something else while it runs."""

    harness: AttemptHarness
    paths: tuple[str, ...]
    meanwhile: Callable[[SparkRoots], None] = lambda _: None

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Past the ports of the worker, as Spark does."""
        assert call.spark is not None
        assert call.spark.staging_branch is not None
        assert call.spark.output_root == f"s3a://repo/{call.spark.staging_branch}/"
        assert call.spark.input_root == f"s3a://repo/{self.harness.input}/"
        self.meanwhile(call.spark)
        for path in self.paths:
            self.harness.repository.write(path, path.encode(), call.spark.staging_branch)
        return BodyReturned({})


class SparkHarness:
    """The harness with a Spark task in the place of its own."""

    def __init__(self, root: Path, policy: PolicySetting, *paths: str) -> None:
        self.harness = AttemptHarness(root, policy)
        self.harness.task = task_of(spark_task)
        self.paths = paths or ("data/daily/part-0.parquet",)

    def worker(
        self,
        *faults: Fault,
        beside: Callable[[SparkRoots], None] = lambda _: None,
    ) -> AttemptWorker:
        """A process whose body writes."""
        worker = self.harness.worker(faults)
        body = WritingBody(self.harness, self.paths, beside)
        return replace(worker, harness=replace(worker.harness, body=body, spark_gateway=GATEWAY))

    async def attempt(self, worker: AttemptWorker) -> AttemptReport:
        """One attempt that does not die."""
        return await self.harness.report_of(worker)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_what_spark_wrote_is_published_without_its_litter(
    tmp_path: Path, policy: PolicySetting
) -> None:
    litter_of_spark = ("data/daily/_SUCCESS", "data/daily/_temporary/0/x", "data/daily/.a.crc")
    spark = SparkHarness(tmp_path, policy, "data/daily/part-0.parquet", *litter_of_spark)
    await spark.harness.start()
    report = await spark.attempt(spark.worker())
    assert report.error is None
    found = [path for path in spark.harness.repository.files() if path.startswith("data/daily")]
    assert found == ["data/daily/part-0.parquet"]
    assert spark.harness.repository.branch_names() == {"main"}
    assert (await spark.harness.read()).status is WorkflowStatus.COMPLETED


@final
@dataclass
class AskingBody(TaskBody):
    """Asks what changed before it writes."""

    writes: WritingBody
    answers: list[Changes | None]

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Ask as the parent of an executor does."""
        assert call.changes is not None
        self.answers.append(await call.changes())
        return await self.writes.run(call)


async def test_a_spark_task_sees_what_changed_since_it_published(tmp_path: Path) -> None:
    harness = SparkHarness(tmp_path, PolicySetting.SETTLED).harness
    answers: list[Changes | None] = []
    published: list[CommitId] = []
    for number in (1, 2):
        await harness.start()
        worker = harness.worker()
        body = AskingBody(WritingBody(harness, (f"data/part-{number}",)), answers)
        ports = replace(worker.harness, body=body, spark_gateway=GATEWAY)
        report = await harness.report_of(replace(worker, harness=ports))
        assert report.error is None, report.error
        published.append(harness.repository.head().commit)
        harness.input = harness.human(f"data/human-{number}")
    assert answers == [None, Changes(published[0], added=("human-1",))]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_stale_attempt_does_not_even_make_a_branch(
    tmp_path: Path, policy: PolicySetting
) -> None:
    spark = SparkHarness(tmp_path, policy)
    await spark.harness.start()
    worker = spark.worker()
    record = await worker.poll(TASK)
    assert record is not None
    await spark.harness.operator.workflows.terminate(spark.harness.workflow, "over")
    report = await spark.harness.drive(worker.run(record))
    assert isinstance(report.error, StaleAttemptError)
    assert Phase.STAGING not in [phase for phase, _ in worker.progress.events]
    assert litter(spark.harness) == []


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_the_name_of_the_branch_is_recorded_before_the_branch_is_made(
    tmp_path: Path, policy: PolicySetting
) -> None:
    """Whoever dies at any call leaves what a pass finds; the marker names the branch by then."""
    recorded: list[str] = []
    spark = SparkHarness(tmp_path / "healthy", policy)
    await spark.harness.start()

    def look(place: SparkRoots) -> None:
        (path,) = tmp_path.rglob(".perago-attempt.json")
        assert f'"staging_branch": "{place.staging_branch}"' in path.read_text()
        recorded.append(place.input_root)

    await spark.attempt(spark.worker(beside=look))
    assert len(recorded) == 1
    for nth in range(1, spark.harness.requests().total() + 1):
        struck = SparkHarness(tmp_path / str(nth), policy)
        await struck.harness.start()
        await struck.harness.attempt(struck.worker(crash(after=ANY_CALL, nth=nth)))
        struck.harness.clock.advance(struck.harness.response_seconds + 1)
        if (await struck.harness.read()).status is WorkflowStatus.RUNNING:
            await struck.harness.operator.workflows.terminate(struck.harness.workflow, "over")
        await collect(struck.harness)
        assert litter(struck.harness) == [], f"death after call {nth}"


@pytest.mark.parametrize("path", ["elsewhere/x", "data2/x", "_lakefs_actions/mine.yaml"], ids=str)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_an_object_that_is_not_the_tasks_refuses_publication_by_its_name(
    tmp_path: Path, policy: PolicySetting, path: str
) -> None:
    spark = SparkHarness(tmp_path, policy, "data/fine", path)
    await spark.harness.start()
    report = await spark.attempt(spark.worker())
    assert isinstance(report.error, OutsidePrefixError)
    assert path in str(report.error)
    assert report.status == AttemptStatus.FAILED
    assert spark.harness.above_input() == []
    assert litter(spark.harness) == []


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_nothing_written_is_a_no_op(tmp_path: Path, policy: PolicySetting) -> None:
    spark = SparkHarness(tmp_path, policy, "data/daily/_SUCCESS")
    await spark.harness.start()
    report = await spark.attempt(spark.worker())
    assert report.error is None
    assert report.update is not None
    assert report.update.output["workspace"] == spark.harness.workspace()
    assert spark.harness.above_input() == []
    assert spark.harness.repository.branch_names() == {"main"}


@pytest.mark.parametrize("path", ["data/daily/part-0.parquet", "data/_SUCCESS"], ids=str)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_write_to_the_target_itself_fails_closed(
    tmp_path: Path, policy: PolicySetting, path: str
) -> None:
    """Whether or not there is something to merge, which lakeFS would refuse then."""
    spark = SparkHarness(tmp_path, policy, path)
    await spark.harness.start()

    def around_publication(_: SparkRoots) -> None:
        spark.harness.repository.write("data/direct", b"direct")

    report = await spark.attempt(spark.worker(beside=around_publication))
    assert "data/direct" in reason_of(report)
    assert "lakectl branch reset lakefs://repo/main" in reason_of(report)
    assert spark.harness.above_input() == []


def _staging(harness: AttemptHarness) -> str:
    (name,) = (name for name in harness.repository.branch_names() if "staging" in name)
    return name


def _published(harness: AttemptHarness) -> set[str]:
    """What differs under the prefix from the input."""
    return {path for path in harness.repository.files() if path.startswith("data/")} - {
        "data/kept.txt",
        "data/old.txt",
    }


@pytest.mark.parametrize("also", [(), ("data/second",)], ids=["all of it", "a part of it"])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_body_that_committed_its_own_work_has_published_it(
    tmp_path: Path, policy: PolicySetting, also: tuple[str, ...]
) -> None:
    spark = SparkHarness(tmp_path, policy)
    spark.paths = also
    await spark.harness.start()

    def commit(place: SparkRoots) -> None:
        files = {"data/first": b"1", "data/_SUCCESS": b"", "data/old.txt": None}
        spark.harness.repository.commit(files, str(place.staging_branch))

    report = await spark.attempt(spark.worker(beside=commit))

    assert report.error is None
    assert _published(spark.harness) == {"data/first", *also}
    assert "data/old.txt" not in spark.harness.repository.files()
    assert len(spark.harness.above_input()) == 1
    assert spark.harness.repository.branch_names() == {"main"}


@pytest.mark.parametrize("path", ["elsewhere/x", "data2/x", "_lakefs_actions/mine.yaml"], ids=str)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_an_object_that_a_body_committed_outside_its_prefix_refuses_publication(
    tmp_path: Path, policy: PolicySetting, path: str
) -> None:
    spark = SparkHarness(tmp_path, policy, "data/fine")
    await spark.harness.start()

    def commit(place: SparkRoots) -> None:
        spark.harness.repository.commit({path: ACTIONS}, str(place.staging_branch))

    report = await spark.attempt(spark.worker(beside=commit))

    assert isinstance(report.error, OutsidePrefixError)
    assert path in str(report.error)
    assert spark.harness.above_input() == []
    assert litter(spark.harness) == []


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_body_that_took_its_own_commit_back_has_changed_nothing(
    tmp_path: Path, policy: PolicySetting
) -> None:
    spark = SparkHarness(tmp_path, policy)
    spark.paths = ()
    await spark.harness.start()

    def there_and_back(place: SparkRoots) -> None:
        branch = str(place.staging_branch)
        spark.harness.repository.commit({"data/x": b"x"}, branch)
        spark.harness.repository.write("data/x", None, branch)

    report = await spark.attempt(spark.worker(beside=there_and_back))

    assert report.error is None
    assert report.update is not None
    assert report.update.output["workspace"] == spark.harness.workspace()
    assert spark.harness.above_input() == []


ACTIONS = b"""
name: mine
on: {post-merge: {}}
hooks: [{id: mine, type: lua, properties: {script: 'print("hello")'}}]
"""
JOB = "0a1b2c3d-0000-0000-0000-000000000000"
WON, LOST = (f"data/part-00000-{JOB}-try{n}.parquet" for n in (1, 0))
LATE = pytest.mark.parametrize("late", [LOST, "data/_temporary/0/x"], ids=["loser", "litter"])


@LATE
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_what_a_lost_executor_writes_between_the_look_and_the_commit_is_not_published(
    tmp_path: Path, policy: PolicySetting, late: str
) -> None:
    spark = SparkHarness(tmp_path, policy, WON)
    await spark.harness.start()
    harness = spark.harness

    def job(place: SparkRoots) -> None:
        manifest = f"data/_perago_committed-{JOB}"
        harness.repository.write(manifest, WON.encode(), str(place.staging_branch))

    write = meanwhile(
        lambda: harness.repository.write(late, b"late", _staging(harness)),
        before="stage",
    )
    report = await spark.attempt(spark.worker(write, beside=job))

    assert report.error is None
    assert _published(harness) == {WON}
    assert len(harness.above_input()) == 1


async def test_a_late_write_outside_the_prefix_refuses_publication(tmp_path: Path) -> None:
    spark = SparkHarness(tmp_path, PolicySetting.SETTLED)
    await spark.harness.start()
    write = meanwhile(
        lambda: spark.harness.repository.write("elsewhere/late", b"", _staging(spark.harness)),
        before="stage",
    )
    report = await spark.attempt(spark.worker(write))
    assert isinstance(report.error, OutsidePrefixError)
    assert "elsewhere/late" in str(report.error)
    assert spark.harness.above_input() == []


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_branch_that_a_body_moved_off_its_input_refuses_publication(
    tmp_path: Path, policy: PolicySetting
) -> None:
    spark = SparkHarness(tmp_path, policy, "data/fine")
    await spark.harness.start()
    root = spark.harness.repository.history()[-1].commit

    def move(place: SparkRoots) -> None:
        reset_hard(spark.harness.repository, root, str(place.staging_branch))
        spark.harness.repository.commit({"data/mine": b""}, str(place.staging_branch))

    report = await spark.attempt(spark.worker(beside=move))

    assert "PRG-F025" in reason_of(report)
    assert spark.harness.above_input() == []


@final
@dataclass
class FilesBody(TaskBody):
    """Writes a file into the copy that stands for the staging branch where there is no gateway."""

    async def run(self, call: BodyCall) -> BodyOutcome:
        """As Spark does on paths of this machine."""
        assert call.spark is not None
        assert call.spark.output_root is not None
        folder = Path(call.spark.output_root.removeprefix("file://")) / "data" / "daily"
        folder.mkdir()
        (folder / "part-0.parquet").write_bytes(b"rows")
        return BodyReturned({})


def _by_gateway(worker: AttemptWorker) -> AttemptWorker:
    return worker


def _on_files(worker: AttemptWorker) -> AttemptWorker:
    return replace(worker, harness=replace(worker.harness, body=FilesBody(), spark_gateway=None))


@pytest.mark.scale
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("on", [_by_gateway, _on_files], ids=["by the gateway", "on files"])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_an_outage_at_any_call_of_a_spark_attempt_spends_nothing(
    tmp_path: Path,
    policy: PolicySetting,
    on: Callable[[AttemptWorker], AttemptWorker],
    side: Side,
) -> None:
    healthy = SparkHarness(tmp_path / "healthy", policy)
    await healthy.harness.start()
    await healthy.attempt(on(healthy.worker()))
    for nth in range(2, healthy.harness.requests().total() + 1):
        spark = SparkHarness(tmp_path / str(nth), policy)
        await spark.harness.start()
        outage = Outage(Moment(ANY_CALL, side, nth=nth), OUTAGE_SECONDS)
        await spark.attempt(on(spark.worker(outage)))
        record = await spark.harness.read()
        rows = [(row.snapshot.status, row.reason) for row in record.attempts]
        assert rows == [(AttemptStatus.COMPLETED, None)], (nth, spark.harness.requests(), rows)
        assert "data/daily/part-0.parquet" in spark.harness.repository.files()
