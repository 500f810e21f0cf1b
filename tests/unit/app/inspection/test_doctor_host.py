"""What `perago doctor` finds on a machine: disk, cache, leftovers of dead workers, and Spark."""

import resource
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.dead_owners import let_locks_go
from tests.unit.app.inspection.doctor_scene import TASK, DoctorScene

from perago.adapters.memory.installations import RepositoryBuilder
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.inspection import doctor_host
from perago.app.inspection.doctor import Status
from perago.app.worker import processes
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.error_codes import error_codes
from perago.domain.errors import SparkEnvironmentError
from perago.domain.lakefs import RepositoryId
from perago.domain.names import staging_branch_name
from perago.ports.conductor import PollRequest
from perago.ports.errors import LocalDiskError
from perago.ports.workspace import AttemptMarker

ENDED = AttemptSnapshot("wf", "task-1", "only", "words", AttemptStatus.IN_PROGRESS)
FULL = {"PERAGO_DISK_FREE_MIN": "1000000GB"}


async def dead_attempt(scene: DoctorScene, row: AttemptSnapshot = ENDED) -> Path:
    """The directory of an attempt whose worker is dead."""
    marker = AttemptMarker(row, ExecutionId("e1"), "a-dead-worker")
    made = await scene.subject().directories.create(marker)
    let_locks_go(scene.root)
    return made


async def test_a_disk_with_room_is_in_order(tmp_path: Path) -> None:
    (found,) = await DoctorScene(tmp_path).found(doctor_host.disk)
    assert (found.status, str(tmp_path) in found.evidence) == (Status.OK, True)


async def test_a_root_that_is_not_there_yet_is_on_the_disk_above_it(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path, variables={"PERAGO_WORKSPACE_ROOT": str(tmp_path / "a" / "b")})
    (found,) = await scene.found(doctor_host.disk)
    assert (found.status, (tmp_path / "a").exists()) == (Status.OK, False)


async def test_a_full_disk_names_first_what_takes_the_most(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path, variables=FULL)
    (await dead_attempt(scene) / "half").write_bytes(bytes(20_000))
    cache = tmp_path / ".perago-cache"
    cache.mkdir()
    (cache / "content").write_bytes(bytes(200_000))
    (found,) = await scene.found(doctor_host.disk)
    assert (found.status, found.code) == (Status.FAILURE, "PRG-W004")
    assert found.commands == (f"rm -r {cache}", "perago gc", f"df -h {tmp_path}")


async def test_a_full_disk_without_anything_of_ours_shows_its_space(tmp_path: Path) -> None:
    (found,) = await DoctorScene(tmp_path, variables=FULL).found(doctor_host.disk)
    assert found.commands == (f"df -h {tmp_path}",)


@contextmanager
def small_files() -> Generator[None]:
    """The kernel's bound on the size of a file, which refuses as a quota does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


async def test_a_disk_that_refuses_a_write_is_an_error(tmp_path: Path) -> None:
    with small_files(), pytest.raises(LocalDiskError, match="file too large"):
        await DoctorScene(tmp_path).found(doctor_host.disk)


async def test_a_cache_that_may_outgrow_its_disk_gets_a_size(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path, variables={"PERAGO_CACHE_SIZE": "1000000GB"})
    (before,) = await scene.found(doctor_host.cache)
    assert before.evidence.startswith("empty; at most ")
    (tmp_path / ".perago-cache").mkdir()
    (found,) = await scene.found(doctor_host.cache)
    (command,) = found.commands
    scene.variables = {"PERAGO_CACHE_SIZE": command.rpartition("=")[2]}
    (after,) = await scene.found(doctor_host.cache)
    assert (found.status, after.status) == (Status.WARNING, Status.OK)


async def test_a_cache_on_a_disk_of_its_own_is_the_one_that_is_measured(tmp_path: Path) -> None:
    cache = tmp_path / "fast"
    cache.mkdir()
    (cache / "content").write_bytes(bytes(200_000))
    given = {"PERAGO_CACHE_DIR": str(cache)}
    (found,) = await DoctorScene(tmp_path, variables=given).found(doctor_host.cache)
    assert not found.evidence.startswith("empty")
    assert f" in {cache}" in found.evidence
    (full,) = await DoctorScene(tmp_path, variables=FULL | given).found(doctor_host.disk)
    assert full.commands[0] == f"rm -r {cache}"


async def test_a_machine_without_leftovers_is_in_order(tmp_path: Path) -> None:
    (found,) = await DoctorScene(tmp_path).found(doctor_host.leftovers)
    assert found.status is Status.OK


async def test_the_directory_of_a_dead_worker_is_for_gc(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    made = await dead_attempt(scene)
    (found,) = await scene.found(doctor_host.leftovers)
    assert (found.status, found.code, found.commands) == (
        Status.WARNING,
        "PRG-H004",
        ("perago gc",),
    )
    assert made.name in found.evidence


async def test_a_row_that_a_dead_worker_still_has_is_for_a_worker_on_its_root(
    tmp_path: Path,
) -> None:
    scene = DoctorScene(tmp_path)
    await scene.register()
    await scene.submit()
    (record,) = await scene.ports.queue.poll(PollRequest(TASK.name, "a-dead-worker"))
    await dead_attempt(scene, record.snapshot)
    (found,) = await scene.found(doctor_host.leftovers)
    assert (found.code, found.commands) == ("PRG-H005", ("perago start team.words",))
    assert f"a-dead-worker died with row {record.snapshot.task_id} of words" in found.evidence
    await scene.ports.workflows.terminate(record.snapshot.workflow_id, "by hand")
    (later,) = await scene.found(doctor_host.leftovers)
    assert later.code == "PRG-H004"


async def test_leftovers_of_the_repository_are_for_gc_of_it(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    repository = RepositoryBuilder(scene.lakefs, "songs")
    repository.commit({"data/a": b"1"})
    subject = replace(scene.subject(), repository=RepositoryId("songs"))
    (found,) = await scene.found(doctor_host.leftovers_in_lakefs, subject)
    assert found.status is Status.OK
    await scene.register()
    workflow = await scene.ports.workflows.read(await scene.submit())
    assert workflow is not None
    row = workflow.attempts[0].snapshot
    await scene.ports.workflows.terminate(row.workflow_id, "by hand")
    name = staging_branch_name(row, scene.subject().identities.new_execution_id())
    repository.branch(name)
    (left,) = await scene.found(doctor_host.leftovers_in_lakefs, subject)
    assert (left.code, left.commands) == ("PRG-H004", ("perago gc songs",))
    assert name in left.evidence
    assert name in repository.branch_names()


async def test_without_conductor_leftovers_are_not_judged(tmp_path: Path) -> None:
    scene = DoctorScene(tmp_path)
    connections = replace(scene.subject().connections, conductor=None)
    subject = replace(scene.subject(), connections=connections)
    assert await scene.found(doctor_host.leftovers, subject) == []
    assert await scene.found(doctor_host.leftovers_in_lakefs, subject) == []


JARS = "PERAGO_SPARK_CONF_spark_jars"
OTHER_HADOOP = SparkEnvironmentError(
    expected="hadoop-aws 3.5.0", found="hadoop-aws 3.3.4", remedy="take it off spark.jars"
)
OF_THE_CODE = error_codes()["PRG-K001"].remedy
NO_PYSPARK = SparkEnvironmentError(expected="pyspark", found="none", remedy="install it")


@pytest.mark.parametrize(
    ("spark", "jars", "remedy"),
    [
        (OTHER_HADOOP, "a/hadoop-aws-3.3.4.jar", f"`unset {JARS}`"),
        (OTHER_HADOOP, "a/x-1.jar,a/hadoop-aws-3.3.4.jar", f"`export {JARS}=a/x-1.jar`"),
        (OTHER_HADOOP, "a/x-1.jar", OF_THE_CODE),
        (NO_PYSPARK, "a/x-1.jar", OF_THE_CODE),
    ],
)
async def test_what_does_not_fit_is_taken_off_or_fetched(
    tmp_path: Path, spark: Exception, jars: str, remedy: str
) -> None:
    scene = DoctorScene(tmp_path, variables={JARS: jars}, spark=spark)
    (found,) = await scene.found(doctor_host.spark)
    assert (found.status, found.code) == (Status.FAILURE, "PRG-K001")
    assert found.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("variables", "task", "spark", "expected"),
    [
        ({}, TASK, NO_PYSPARK, Status.OK),
        ({}, replace(TASK, on_spark=True), ("4.3.0", "pyspark 4.3.0"), Status.OK),
        ({}, replace(TASK, on_spark=True), ("4.2.0", "pyspark 4.2.0"), Status.WARNING),
        ({"PERAGO_SPARK_MASTER": "sc://there"}, TASK, NO_PYSPARK, Status.OK),
        ({"PERAGO_PIPELINE": "spark"}, TASK, ("4.2.0", "pyspark 4.2.0"), Status.WARNING),
    ],
)
async def test_spark_is_asked_for_where_it_is_wanted(
    tmp_path: Path,
    variables: dict[str, str],
    task: TaskDefinition,
    spark: tuple[str, str] | Exception,
    expected: Status,
) -> None:
    scene = DoctorScene(tmp_path, task=task, variables=variables, spark=spark)
    (found,) = await scene.found(doctor_host.spark)
    assert found.status is expected


def test_a_worker_of_the_old_release_is_found_by_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PROCESSES", tmp_path / "proc")
    monkeypatch.setattr(doctor_host, "PROCESSES", tmp_path / "proc")
    environment = tmp_path / "old"
    (environment / "lib/python3.11/site-packages/perago-0.6.1.dist-info").mkdir(parents=True)
    python, program = f"{environment}/bin/python", f"{environment}/bin/perago"

    def found(prefix: str = "teamwords") -> list[int]:
        return doctor_host.old_workers_here([prefix])

    def born(pid: int, parent: int, at: int, *words: str, given: str = "") -> None:
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "cmdline").write_text("".join(f"{word}\0" for word in words))
        (folder / "environ").write_text(f"A=1\0{given}\0")
        between = " ".join("0" * 17)
        (folder / "stat").write_text(f"{pid} (a (b) S {parent} {between} {at} 0 0")

    assert found() == []
    born(10, 1, 100, "/usr/bin/python", "/usr/bin/perago", "start", "team.words")
    born(11, 1, 100, python, program, "check", "team.words")
    assert found() == []
    born(20, 1, 200, python, program, "start", "team.words")
    assert found() == [20]  # in thread mode it polls itself
    born(21, 20, 201, python, "-c", "from multiprocessing.resource_tracker import main")
    born(23, 20, 202, python, "-c", "spawn_main")
    born(22, 20, 203, python, "-c", "spawn_main")
    given = "PERAGO_WORKER_ID_PREFIX=more"
    born(30, 1, 300, python, "-m", "perago", "start", "-j", "2", "team.words", given=given)
    assert (found(), found("more"), found("team")) == ([23], [30], [])
