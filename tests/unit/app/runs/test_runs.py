"""What begin and finish promise, sentence by sentence, on in-memory servers."""

from pathlib import Path

import pytest
from tests.unit.app.runs.run_world import RunWorld

from perago.domain.finish import History, OnMoved


@pytest.mark.parametrize("history", History)
@pytest.mark.parametrize("on_moved", OnMoved)
async def test_the_target_shows_a_run_as_one_commit(
    tmp_path: Path, history: History, on_moved: OnMoved
) -> None:
    world = await RunWorld(tmp_path, history=history, on_moved=on_moved).started()
    await world.until("perago.finish")
    await world.assert_untouched()
    await world.until(None)
    await world.assert_published()
    (record,) = world.runs_on_target()
    assert record.parents[0] == world.input
