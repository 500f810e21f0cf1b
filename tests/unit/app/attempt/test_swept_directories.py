"""A cleaner that takes a directory while it is compared must not look like a body's deletions."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_scene import AttemptScene
from tests.unit.app.attempt.test_spark_attempts import spark_task

from perago.app.authoring.task_declaration import task_of
from perago.domain.policy import PolicySetting
from perago.ports.task_body import BodyReturned
from perago.testing.faults import Answer, Moment, Side, meanwhile


@pytest.mark.parametrize("on_spark", [False, True], ids=["local", "spark"])
async def test_a_directory_that_is_swept_while_it_is_compared_publishes_nothing(
    tmp_path: Path,
    on_spark: bool,  # noqa: FBT001 - a row of the table
) -> None:
    """Its folders stay, so that nothing is missing where the scan looks for it."""
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    if on_spark:  # without a gateway: Spark works on local files
        scene.task = task_of(spark_task)
    written = [Answer(Moment("function", Side.BEFORE), BodyReturned({}))] if on_spark else []

    def sweep() -> None:
        for path in tmp_path.glob("**/task_id=*/**/*"):
            if path.is_file():
                path.unlink()

    story = await scene.next_attempt(*written, meanwhile(sweep, before="compare"))

    assert not story.accepted, "the deletions were published"
    assert "PRG-W003" in str(story.reason)
    assert scene.above_input() == []
