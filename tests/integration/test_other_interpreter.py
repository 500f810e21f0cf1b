"""Task code in another Python, with an older pydantic and nothing else of the worker's packages.

The environment is made once per user, by pip as it is set up on this machine.
"""

import asyncio
import os
from pathlib import Path

from perago.adapters.system.host import SystemClock
from perago.app.settings.settings import load_settings
from perago.app.worker.executor import ExecutorProgram
from perago.app.worker.process_body import ProcessBody, ProcessBodySettings
from perago.app.worker.processes import executor_python_of
from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.ports.task_body import BodyCall, BodyReturned
from perago_servers.python_wheel import private_environment

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
    settings = ProcessBodySettings(program, slots=1)
    body = ProcessBody(settings, SystemClock())
    try:
        await body.start()
        async with asyncio.timeout(60):
            outcome = await body.run(call(workspace))
    finally:
        await body.close()
    assert isinstance(outcome, BodyReturned), outcome
    assert outcome.result == {"pydantic": OLDER, "has_aiohttp": False, "number": 7}
    assert (workspace / "here.txt").read_text(encoding="utf-8") == "where"
