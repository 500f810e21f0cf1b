"""`perago start` as process 1 of a container: it drains at SIGTERM and leaves no zombie."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.worker_scene import RunningWorker, TaskModule, WorkerScene

from perago.domain.attempt import WorkflowStatus

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
# A namespace of its own where the machine allows it, else every orphan is sent to the worker.
NAMESPACE = ("unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
ADOPTING = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
os.execv(sys.argv[1], sys.argv[1:])
"""
# A grandchild whose parent is gone, in the executor's session, dead a moment later.
ORPHANS = """
import subprocess
subprocess.run(["sh", "-c", "for n in 1 2 3; do (sleep 0.3 &) ; done"], check=True)
print("as process", os.getppid())
"""


def may_have_a_namespace() -> bool:
    """Whether this machine lets its users have process namespaces."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True).returncode == 0


async def launch(scene: WorkerScene, module: TaskModule, *wrap: str) -> RunningWorker:
    """Start a worker inside of something."""
    root = scene.folder / "root"
    root.mkdir()
    with (root / "stderr").open("a", encoding="utf-8") as screen:
        process = await asyncio.create_subprocess_exec(
            *wrap,
            *(sys.executable, "-m", "perago", "start", module.name),
            cwd=scene.folder,
            env=scene.environment(root),
            stdout=screen,
            stderr=screen,
            start_new_session=True,
        )
    return RunningWorker(process, root)


def children(pid: int) -> list[tuple[int, str]]:
    """Children of a process and their states."""
    found: list[tuple[int, str]] = []
    for each in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        stat = Path(f"/proc/{each}/stat").read_text(encoding="utf-8")
        found.append((int(each), stat.rpartition(")")[2].split()[0]))
    return found


async def test_process_1_reaps_orphans_and_drains_at_sigterm(scene: WorkerScene) -> None:
    module = await scene.declare(ORPHANS)
    inside = may_have_a_namespace()
    wrap = NAMESPACE if inside else (sys.executable, "-c", ADOPTING)
    worker = await launch(scene, module, *wrap)
    try:
        await worker.has("worker started")
        # In a namespace the worker is the one child of the program that made it.
        pid = children(worker.pid)[0][0] if inside else worker.pid
        ended = await scene.ended(await scene.start(module))
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen
        if inside:
            assert worker.events("as process 1")
        await asyncio.sleep(0.5)  # the orphans have ended
        for _ in range(100):
            if "Z" not in {state for _, state in children(pid)}:
                break
            await asyncio.sleep(0.1)
        assert [state for _, state in children(pid)].count("Z") == 0
        assert len(children(pid)) == 1, "the executor"
        os.kill(pid, signal.SIGTERM)
        assert await worker.exit_code() == 0
        assert worker.events("worker drained")
    finally:
        if worker.process.returncode is None:
            os.killpg(worker.pid, signal.SIGKILL)
            await worker.process.wait()
