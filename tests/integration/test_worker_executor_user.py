"""`perago start` with executors of another user, from the download to the publication."""

import os
import signal
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from tests.documented_commands import page_lines
from tests.integration.page_reader import OTHER_TASK, Reader, settings_of
from tests.integration.worker_scene import WorkerScene
from tests.unprivileged import NOBODY, ReadablePython

from perago.domain.attempt import WorkflowStatus
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ConductorServer, LakefsServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]


def attempt_directories(folder: Path) -> list[str]:
    """Those that are left below the roots of workers."""
    return [each.name for each in folder.glob("*/workspaces/*exec=*")]


async def test_a_body_of_another_user_works_in_its_workspace_and_the_worker_publishes_it(
    scene: WorkerScene, python: ReadablePython, shared_folder: Path
) -> None:
    is_root = os.geteuid() == 0
    switched = {"PERAGO_EXECUTOR_USER": str(NOBODY)} if is_root else {}
    scene = replace(
        scene,
        folder=shared_folder,
        executable=python.executable,
        variables={**python.environment, **switched},
    )
    user = NOBODY if is_root else os.getuid()
    module = await scene.declare(
        """
        assert (workspace / "a.txt").read_text() == "a"
        (workspace / "a.txt").write_text("changed by another user")
        (workspace / "below").mkdir()
        (workspace / "below" / "b.txt").write_text(str(os.getuid()))
        (workspace / "below").chmod(0o500)
        with open("/dev/stdout", "w") as stdout:
            stdout.write(f"{os.getuid()} {os.getgroups()}\\n")
        Path.home().joinpath("note").write_text("home is there")
        """,
        workspace=True,
    )
    async with scene.polling_worker([module]) as worker:
        workflow = await scene.start(module)
        ended = await scene.ended(workflow)
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen
        assert f"{user} [" in str(worker.lines())
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0
    changed = await scene.lakefs.objects.read(scene.repository, MAIN, "data/a.txt")
    assert changed == b"changed by another user"
    below = await scene.lakefs.objects.read(scene.repository, MAIN, "data/below/b.txt")
    assert below == str(user).encode()
    assert attempt_directories(shared_folder) == []


def test_the_commands_of_the_page_start_a_worker_with_executors_of_another_user(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    python: ReadablePython,
    shared_folder: Path,
) -> None:
    lines = page_lines(
        "docs/operations.md",
        "mkdir -p -m 711 /var/lib",
        "export PERAGO_WORKSPACE_ROOT=/var/lib",
        "perago start team.tasks -j 4",
    )
    # Two things are not as printed: no test writes to /var/lib, and who is not root has one user.
    typed = "\n".join(lines).replace("/var/lib", f"{shared_folder}/var/lib")
    assert "PERAGO_EXECUTOR_USER=nobody" in typed
    if os.geteuid() != 0:
        typed = typed.replace("PERAGO_EXECUTOR_USER=nobody", "")
    (shared_folder / "team").mkdir()
    (shared_folder / "team/tasks.py").write_text(OTHER_TASK.format(name="team"), encoding="utf-8")
    program = shared_folder / "perago"
    program.write_text(f'#!/bin/sh\nexec {python.executable} -m perago "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    settings = settings_of(lakefs_server, conductor_server)
    readable = {name: value for name, value in python.environment.items() if name != "PATH"}
    reader = Reader(shared_folder, {**readable, **settings}, programs=shared_folder)
    reader.type("perago register team.tasks")
    with reader.running(typed):
        root = shared_folder / "var/lib/perago/workspaces"
        assert stat.S_IMODE(root.stat().st_mode) == (0o711 if os.geteuid() == 0 else 0o700)
