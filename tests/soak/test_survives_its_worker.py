"""The long form of the kills after a task function ended: twenty parents, at random moments."""

from pathlib import Path

import pytest
from tests.integration.killed_after_the_function import killed_after_the_function
from tests.integration.worker_scene import worker_scene

from perago_servers import ConductorServer, LakefsServer

pytestmark = [
    pytest.mark.soak,
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.timeout(1800),
]


async def test_twenty_parents_are_killed_after_the_function(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> None:
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as scene:
        deaths = await killed_after_the_function(scene, kills=20, seed=7)

    kept = [death for death in deaths if death.kept]
    again = sum(death.runs > 1 for death in deaths)
    print(f"{len(deaths)} kills, {len(kept)} kept outcomes, {again} functions ran again")  # noqa: T201
    assert len(kept) > len(deaths) // 4, deaths
