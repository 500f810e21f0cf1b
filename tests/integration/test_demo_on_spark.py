"""The demonstration's pipeline with its aggregate on Spark: the same accidents, the same report."""

import pytest

from perago.testing.demo import SCENES, Scene, narrate, play

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.title)
async def test_a_spark_aggregate_keeps_every_promise(scene: Scene, spark_session: object) -> None:
    del spark_session  # it is the one that bodies find
    played = await play(scene, "settled", on_spark=True)
    assert played.as_expected, list(narrate(1, played))
