"""`perago doctor` on a real Conductor: an accident, the finding, its command as printed, the cure.

Commands run inside this process, as in tests/unit/remedies. Workers are processes of their own,
the one of 0.6.1 with its public release.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, TypeVar, final

import pytest
from tests.contract.real_conductor import connected as connected_to_conductor
from tests.contract.real_lakefs import connected as connected_to_lakefs
from tests.dead_owners import let_locks_go
from tests.integration.small_disk import is_small, small_disk
from tests.unit.app.command_line.command_run import Ran
from tests.unit.remedies.conftest import project, run, shell
from tests.unit.remedies.shell import Shell
from tools.peer import peer_environment

from perago.adapters.filesystem.attempt_directory import LocalAttemptDirectories
from perago.adapters.system import AsyncioConcurrency, SystemClock
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.lakefs import BranchName
from perago.ports.workspace import AttemptMarker
from perago.testing.contract.conductor_under_test import ConductorUnderTest
from perago_servers import ConductorServer, LakefsServer
from perago_servers.cache import cache_root

__all__ = ["project", "run", "shell"]
pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
SOURCE = Path(__file__).parents[2] / "src"
CACHE = cache_root().parents[1]  # asked before a shell has another home
Seen = TypeVar("Seen")
MODULE = """
import time
from pathlib import Path
from pydantic import BaseModel
from perago import PublishBudget, TaskControls, TimeoutPolicy, WorkspaceSpec, task


class Params(BaseModel):
    seconds: float = 0


class Result(BaseModel):
    rows: int


@task(
    name="{name}",
    owner_email="team@example.org",
    workspace=WorkspaceSpec(prefix="data"),
    controls=TaskControls(
        timeout=TimeoutPolicy(response_seconds=300),
        publish_budget=PublishBudget(
            observed_merge_p99_seconds=1,
            safety_margin_seconds=1,
            lakefs_merge_timeout_seconds=60,
            conductor_completion_timeout_seconds=60,
            worker_shutdown_grace_seconds=30,
            heartbeat_interval_seconds=10,
        ),
    ),
)
def words(workspace: Path, params: Params) -> Result:
    time.sleep(params.seconds)
    (workspace / "rows").write_text("1")
    return Result(rows=1)
"""
SECONDS_MAX = 120.0  # a worker of 0.6.1 takes a while to start on a busy machine


@final
class Operator:
    """One task module, its servers, and a person at a terminal."""

    def __init__(self, shell: Shell, lakefs: LakefsServer, conductor: ConductorServer) -> None:
        self.shell = shell
        self.conductor = conductor
        self.lakefs = lakefs
        shell.servers |= {name: partial(on_the_machine, name) for name in ("kill", "rm")}
        self.task = f"{shell.module}_{os.urandom(4).hex()}"
        shell.write(MODULE.format(name=self.task))
        # The home of the shell is empty, and the jars of Spark are in that of the machine.
        shell(f"export XDG_CACHE_HOME={CACHE}")
        # By the names that 0.6.1 knows as well.
        shell(f"export CONDUCTOR_SERVER_URL={conductor.api_url}")
        shell(f"export LAKECTL_SERVER_ENDPOINT_URL={lakefs.endpoint}")
        names = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
        shell(f"export {names[0]}={lakefs.access_key_id} {names[1]}={lakefs.secret_access_key}")

    def look(self, *options: str) -> list[dict[str, Any]]:
        """What the doctor finds now."""
        ran = self.shell(" ".join(("perago doctor", self.shell.module, "--json", *options)))
        assert self.lakefs.secret_access_key not in ran.out + ran.err
        findings: list[dict[str, Any]] = ran.document["findings"]
        return findings

    def findings(self, code: str, *options: str) -> list[dict[str, Any]]:
        """Those with a code; the TaskDefs of built-in tasks are those of every test's."""
        found = [each for each in self.look(*options) if each["code"] == code]
        if code == "PRG-T019":
            return [each for each in found if self.task in each["evidence"]]
        return found

    def finding(self, code: str, *options: str) -> dict[str, Any]:
        """The one finding with a code."""
        found = self.findings(code, *options)
        assert len(found) == 1, self.look(*options)
        return found[0]

    def is_cured(self, code: str, *options: str) -> None:
        """The doctor does not find it any more."""
        assert self.findings(code, *options) == []

    def registered(self) -> None:
        """Register the task and a workflow of it."""
        assert self.shell(f"perago register {self.shell.module}").code == 0
        new = f"perago workflow new {self.shell.module} --name {self.task} --register"
        assert self.shell(new).code == 0

    def changed(self, **fields: object) -> None:
        """Change the TaskDef behind the back of the code."""
        self.on_conductor(lambda harness: _put(harness, self.task, fields))

    def on_conductor(self, what: Callable[[ConductorUnderTest], Awaitable[Seen]]) -> Seen:
        """Do something on Conductor itself."""

        async def do() -> Seen:
            async with connected_to_conductor(self.conductor) as harness:
                return await what(harness)

        return asyncio.run(do())

    def submitted(self, *, seconds: float = 0) -> tuple[str, str]:
        """Start a workflow in a repository of its own; both."""

        async def make() -> str:
            async with connected_to_lakefs(self.lakefs) as harness:
                made = await harness.create_repository()
                await harness.commit_files(made, BranchName("main"), {"data/a.txt": b"a"})
                return made

        repository, params = asyncio.run(make()), self.shell.project / "params.json"
        params.write_text(json.dumps({self.task: {"seconds": seconds}}))
        given = f"--repo {repository} --branch main --params @params.json"
        ran = self.shell(f"perago submit {self.task} {given} --json")
        assert ran.code == 0, ran
        return ran.document["workflow_id"], repository

    @contextmanager
    def running(
        self, command: str, release: Path | None = None
    ) -> Generator["subprocess.Popen[bytes]"]:
        """Run a command that stays, of this release or of another one; killed at the end."""
        programs, path = self.shell.project / "bin", str(self.shell.project)
        if release is None:
            programs.mkdir(exist_ok=True)
            program = programs / "perago"
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -m perago "$@"\n')
            program.chmod(0o755)
            path = f"{SOURCE}:{path}"
        else:
            programs = release / "bin"
        environment = {**os.environ, "PYTHONPATH": path}
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        with (self.shell.project / "screen").open("ab") as screen:
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                cwd=self.shell.project,
                env=environment,
                stdout=screen,
                stderr=screen,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            kill(process)

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something."""
        begin = monotonic()
        while not holds():
            screen = self.shell.project / "screen"
            assert monotonic() - begin < SECONDS_MAX, screen.read_text()
            Event().wait(0.1)

    def directories(self) -> list[Path]:
        """The attempt directories below the root."""
        return list(Path(os.environ["PERAGO_WORKSPACE_ROOT"]).rglob(".perago-attempt.json"))

    def holder(self) -> str | None:
        """The worker that has a row of the task."""
        rows = self.on_conductor(lambda harness: harness.queue.in_progress(self.task))
        return rows[0].snapshot.worker_id if rows else None

    def status(self, workflow: str) -> str:
        """How a workflow stands."""
        found = self.on_conductor(lambda harness: harness.workflows.read(workflow))
        assert found is not None
        return str(found.status)


def on_the_machine(program: str, words: list[str]) -> Ran:
    """Run a program as it is."""
    done = subprocess.run([program, *words], check=False, capture_output=True, text=True)
    return Ran(done.returncode, done.stdout, done.stderr)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End a command with everything that it has started, as the end of its machine would."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


async def _put(harness: ConductorUnderTest, task: str, fields: Mapping[str, object]) -> None:
    registered = await harness.definitions.read(task)
    assert registered is not None
    await harness.definitions.put({**registered, **fields})


@pytest.fixture
def operator(
    shell: Shell, lakefs_server: LakefsServer, conductor_server: ConductorServer
) -> Operator:
    """An operator whose task is declared and not registered."""
    return Operator(shell, lakefs_server, conductor_server)


def only_command(finding: Mapping[str, Any]) -> str:
    """The command of a remedy that has one."""
    (command,) = finding["commands"]
    return str(command)


def test_an_address_without_the_path_of_the_api(operator: Operator) -> None:
    right = operator.conductor.api_url
    operator.shell(f"export CONDUCTOR_SERVER_URL={right.removesuffix('/api')}")
    found = operator.finding("PRG-L008")
    assert only_command(found) == f"export PERAGO_CONDUCTOR={right}"
    operator.shell(only_command(found))
    operator.is_cured("PRG-L008")


def test_a_taskdef_that_is_missing(operator: Operator) -> None:
    found = operator.finding("PRG-T019")
    assert (found["status"], operator.task in found["evidence"]) == ("failure", True)
    assert operator.shell(only_command(found)).code == 0
    operator.is_cured("PRG-T019")


def test_a_taskdef_that_differs(operator: Operator) -> None:
    operator.registered()
    operator.changed(retryCount=1)
    found = operator.finding("PRG-T019")
    assert found["evidence"] == f"{operator.task} differs: retryCount: registered 1, code 3"
    assert operator.shell(only_command(found)).code == 0
    operator.is_cured("PRG-T019")


def test_a_response_time_out_that_is_too_short(operator: Operator) -> None:
    operator.registered()
    operator.changed(responseTimeoutSeconds=20)
    found = operator.finding("PRG-H003")
    assert f"{operator.task} has 20 s and needs 160 s" in found["evidence"]
    assert operator.shell(only_command(found)).code == 0
    operator.is_cured("PRG-H003")


def test_a_task_that_no_worker_polls(operator: Operator) -> None:
    operator.registered()
    workflow, _ = operator.submitted()
    found = operator.finding("PRG-H001")
    assert (found["status"], "1 waiting" in found["evidence"]) == ("failure", True)
    with operator.running(only_command(found)):
        operator.until(lambda: operator.status(workflow) == "COMPLETED")
        operator.is_cured("PRG-H001")


def test_a_worker_of_the_old_release(operator: Operator) -> None:
    operator.registered()
    prefix = f"old{os.urandom(4).hex()}"  # of no other test on this machine
    operator.shell(f"export PERAGO_WORKER_ID_PREFIX={prefix}")
    with operator.running(f"perago start {operator.shell.module}", peer_environment()) as old:
        workflow, repository = operator.submitted()
        operator.until(lambda: operator.status(workflow) == "COMPLETED")
        found = operator.finding("PRG-H002")
        assert f"{prefix}Broker" in found["evidence"]
        assert only_command(found).startswith("kill ")
        assert operator.shell(only_command(found)).code == 0
        assert old.wait(SECONDS_MAX) == 0
    operator.until(lambda: not operator.findings("PRG-H002"))
    later = operator.finding("PRG-H002", "--repo", repository)
    assert (later["status"], "1 commits of the last day on main" in later["evidence"]) == (
        "warning",
        True,
    )


def test_the_litter_of_a_killed_host(operator: Operator) -> None:
    operator.registered()
    workflow, repository = operator.submitted(seconds=2)
    with operator.running(f"perago start {operator.shell.module}") as worker:
        operator.until(lambda: operator.holder() is not None)
        operator.until(lambda: any(operator.directories()))
        kill(worker)
    found = operator.finding("PRG-H005")
    assert operator.task in found["evidence"]
    with operator.running(only_command(found)) as next_worker:
        operator.until(lambda: operator.status(workflow) == "COMPLETED")
        next_worker.terminate()  # it still cleans up after the attempt
        assert next_worker.wait(SECONDS_MAX) == 0
    left = {each["code"] for each in operator.look("--repo", repository)}
    assert left.isdisjoint({"PRG-H004", "PRG-H005"})


async def _dead_attempt(root: Path) -> Path:
    """The directory of an attempt whose worker is dead."""
    directories = LocalAttemptDirectories(root, SystemClock(), AsyncioConcurrency())
    row = AttemptSnapshot("ended", "task", "words", "words", AttemptStatus.IN_PROGRESS)
    made = await directories.create(AttemptMarker(row, ExecutionId("e1"), "a-dead-worker"))
    let_locks_go(root)
    return made


def test_a_disk_that_is_full(operator: Operator, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        disk.chmod(0o700)
        operator.shell(f"export PERAGO_WORKSPACE_ROOT={disk}")
        directory = asyncio.run(_dead_attempt(disk))
        with suppress(OSError), (directory / "half").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        if not is_small(disk):  # the bound on files stands in for it, and refuses to the end
            assert "too large" in operator.finding("PRG-W004")["evidence"]
            return
        found = operator.finding("PRG-W004")
        assert (found["status"], str(disk) in found["evidence"]) == ("failure", True)
        assert operator.shell(found["commands"][0]).code == 0
        assert {each["code"] for each in operator.look()}.isdisjoint({"PRG-W004", "PRG-H004"})


@pytest.mark.spark
def test_jars_of_another_hadoop(operator: Operator) -> None:
    operator.shell("export PERAGO_SPARK_CONF_spark_jars=jars/hadoop-aws-3.3.4.jar")
    found = operator.finding("PRG-K001")
    assert (found["status"], "found hadoop-aws 3.3.4" in found["evidence"]) == ("failure", True)
    operator.shell(only_command(found))
    operator.shell("export PERAGO_SPARK_MASTER='local[2]'")
    operator.is_cured("PRG-K001")
