"""One random history on the in-memory lakeFS and on a real one: every answer is the same.

The laws say what a caller may rely on; this finds what no law says yet. A difference is a defect
of the fake, and its mending becomes a law.
"""

from pathlib import Path

import pytest
from tests.contract.lakefs_twins import Dice, Twin
from tests.contract.real_lakefs import connected
from tools.servers import LakefsServer

from perago.testing.contract.lakefs_world import memory_lakefs_world

STEPS = 150


@pytest.mark.lakefs
@pytest.mark.parametrize("seed", range(8))
async def test_one_history_has_the_same_answers_in_memory_and_on_a_server(
    lakefs_server: LakefsServer, tmp_path: Path, seed: int
) -> None:
    dice, memory = Dice(seed), memory_lakefs_world()
    async with connected(lakefs_server) as server:
        fake = Twin(memory, await memory.create_repository(), tmp_path / "fake")
        real = Twin(server, await server.create_repository(), tmp_path / "real")
        await fake.begin()
        await real.begin()
        for number in range(STEPS):
            dice.commits = len(real.commits)
            name, step = dice.step()
            assert (number, name, await fake.tell(step)) == (number, name, await real.tell(step))
