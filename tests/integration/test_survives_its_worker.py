"""A parent that is killed after a task function ended: the function does not run again.

The short form of the kills; the long one is in tests/soak.
"""

from pathlib import Path

import pytest
from tests.integration.killed_after_the_function import killed_after_the_function
from tests.integration.worker_scene import worker_scene

from perago_servers import ConductorServer, LakefsServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.timeout(300)]


async def test_a_function_that_ended_runs_once_though_its_parent_is_killed(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> None:
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as scene:
        deaths = await killed_after_the_function(scene, kills=3, seed=11)
    assert any(death.kept for death in deaths), deaths


async def test_a_directory_that_was_changed_in_between_is_refused(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> None:
    def change(directory: Path) -> None:
        (directory / "0.txt").write_text("of a left-over process", encoding="utf-8")

    async with worker_scene((lakefs_server, conductor_server), tmp_path) as scene:
        (death,) = await killed_after_the_function(scene, kills=1, seed=11, between=change)
    assert (death.kept, death.runs) == (True, 2)
