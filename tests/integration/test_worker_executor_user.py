"""`perago start` with executors of another user, from the download to the publication."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.lakefs_under_test import MAIN
from tests.integration.worker_scene import WorkerScene
from tests.unprivileged import NOBODY, ReadablePython

from perago.domain.attempt import WorkflowStatus

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
