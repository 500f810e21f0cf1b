"""A worker that another program runs, and the command that has its process to itself."""

import asyncio
import os
import sys
import textwrap
import time
from pathlib import Path

import pytest

TASK = """
from pydantic import BaseModel
from perago import task

class Count(BaseModel):
    number: int = 0

@task(name="counting", owner_email="data@example.com")
def count(params: Count) -> Count:
    return params
"""
WORKER = """
import asyncio, os, signal, sys, threading, time
from perago.adapters.memory.installations import shared_conductor
from perago.app.authoring.task_declaration import load_module_tasks
from perago.app.authoring.task_definition import build_taskdef
from perago.app.settings.settings import load_settings
from perago.app.start_worker import start_worker
from perago.app.worker_assembly import StartOrder

MODULE = "counting"
settings, tasks = load_settings(flags={}), load_module_tasks(MODULE)
asyncio.run(shared_conductor("memory:").definitions.put(build_taskdef(tasks[0])))

def end_when_polling():
    while b"worker started" not in b"".join(log.read_bytes() for log in logs.rglob("*.jsonl")):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)

logs = settings.log_root
threading.Thread(target=end_when_polling).start()
"""
GOES_ON = """
code = start_worker(StartOrder(settings, [MODULE], tasks))
time.sleep(3)
print("went on after", code)
"""
LEAVES = """
from perago.app.command_line import start
def hang():
    time.sleep(60)
threading.Thread(target=hang).start()
start.start([MODULE])
"""


async def run(program: str, folder: Path) -> tuple[int | None, str]:
    """The exit code and the output of a program around a worker."""
    (folder / "counting.py").write_text(TASK, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "CONDUCTOR_SERVER_URL": "memory:",
        "PERAGO_WORKSPACE_ROOT": str(folder / "workspaces"),
        "PERAGO_LOG_ROOT": str(folder / "logs"),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(WORKER + program)),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), 40)
    except TimeoutError:
        process.kill()
        pytest.fail("the process did not end")
    return process.returncode, said.decode()


async def test_a_program_goes_on_after_the_worker_that_it_ran(tmp_path: Path) -> None:
    code, said = await run(GOES_ON, tmp_path)
    assert said.endswith("went on after 0\n"), said
    assert code == 0


async def test_the_command_waits_for_no_thread_after_its_worker(tmp_path: Path) -> None:
    began = time.monotonic()
    code, said = await run(LEAVES, tmp_path)
    assert code == 0, said
    assert time.monotonic() - began < 30
