"""Task code in another Python, with an older pydantic and nothing else of the worker's packages.

The environment is made once per user, by pip as it is set up on this machine.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from tests.documented_commands import page_lines
from tests.integration.page_reader import OTHER_TASK, SCRIPTS, Reader, settings_of

from perago.adapters.system import SystemClock
from perago.app.settings.settings import load_settings
from perago.app.worker.executor import ExecutorProgram
from perago.app.worker.executor_user import executor_python_of
from perago.app.worker.process_body import ProcessBody
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.ports.task_body import BodyCall, BodyReturned
from perago_servers import ConductorServer, LakefsServer
from perago_servers.cache import cache_root, locked, private_environment

OLDER = "2.12.0"
TASK = """
from pathlib import Path

from pydantic import VERSION, BaseModel

from perago import WorkspaceSpec, current_attempt, require_file, task


class Params(BaseModel):
    number: int


class Where(BaseModel):
    pydantic: str
    has_aiohttp: bool
    number: int


def _has(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True


@task(
    name="where",
    owner_email="team@example.org",
    workspace=WorkspaceSpec(post=[require_file("here.txt")]),
)
def where(workspace: Path, params: Params) -> Where:
    (workspace / "here.txt").write_text(current_attempt().task_name)
    return Where(pydantic=VERSION, has_aiohttp=_has("aiohttp"), number=params.number)
"""


def call(workspace: Path) -> BodyCall:
    attempt = AttemptSnapshot("w1", "t1", "where_ref", "where", AttemptStatus.IN_PROGRESS)
    return BodyCall("where", attempt, ExecutionId("e1"), {"number": 7}, workspace)


async def test_task_code_meets_only_what_its_own_environment_has(tmp_path: Path) -> None:
    place = private_environment(f"pydantic=={OLDER}")
    python = str(place / "bin" / "python")
    chosen = load_settings(cwd=tmp_path, process_env={"PERAGO_EXECUTOR_PYTHON": python})
    (tmp_path / "where_task.py").write_text(TASK, encoding="utf-8")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = ExecutorProgram(("where_task",), environment, python=executor_python_of(chosen))
    body = ProcessBody(program, SystemClock())
    try:
        await body.start()
        async with asyncio.timeout(60):
            outcome = await body.run(call(workspace))
    finally:
        await body.close()
    assert isinstance(outcome, BodyReturned), outcome
    assert outcome.result == {"pydantic": OLDER, "has_aiohttp": False, "number": 7}
    assert (workspace / "here.txt").read_text(encoding="utf-8") == "where"


@pytest.mark.lakefs
@pytest.mark.conductor
@pytest.mark.timeout(400)
def test_the_commands_of_the_page_start_a_worker_with_an_environment_of_the_team(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> None:
    *making, start = page_lines(
        "docs/operations.md",
        "python3 -m venv /opt/team/venv",
        "/opt/team/venv/bin/pip install",
        "PERAGO_EXECUTOR_PYTHON=/opt/team/venv",
    )
    place = made_by(making)
    (tmp_path / "team").mkdir()
    (tmp_path / "team/tasks.py").write_text(OTHER_TASK.format(name="team"), encoding="utf-8")
    reader = Reader(tmp_path, settings_of(lakefs_server, conductor_server))
    reader.type("perago register team.tasks")
    with reader.running(start.replace("/opt/team/venv", str(place))):
        pass


def made_by(lines: Sequence[str]) -> Path:
    """What the lines make in the place of /opt/team/venv: once per user, and anew when they change.

    It is in the cache of this user, because pandas is 60 MB and lasts half a minute.
    """
    version = f"py{sys.version_info.major}.{sys.version_info.minor}"
    key = f"team-{sha256(''.join(lines).encode()).hexdigest()[:12]}-{version}"
    place = cache_root() / key
    with locked(key):
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
            for line in lines:
                typed = line.replace("/opt/team/venv", str(place))
                environment = {**os.environ, "PATH": path}
                subprocess.run(["bash", "-ec", typed], check=True, env=environment)  # noqa: S607
            (place / "complete").touch()
    return place
