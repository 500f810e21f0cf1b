"""Bad input gets a clear error and loses nothing: the target and its tags stay as they were."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_scene import AttemptScene

from perago.domain.attempt import AttemptStatus
from perago.domain.lineage import FIRST_PARENT_COMMITS_MAX
from perago.domain.policy import PolicySetting

ROWS: list[tuple[str, Callable[[AttemptScene], object], str]] = [
    ("null workspace", lambda _: None, "the upstream output was null"),
    ("unknown repository", lambda w: w.workspace(repository="nowhere"), "nowhere"),
    ("unknown branch", lambda w: w.workspace(branch="nobranch"), "nobranch"),
    ("unknown ref", lambda w: w.workspace(ref="f" * 64), "f" * 64),
    ("a branch instead of a commit", lambda w: w.workspace(ref="main"), "main"),
    (
        "both spellings differ",
        lambda w: w.workspace(ref_type="branch"),
        "ref",
    ),
    ("blank ref", lambda w: w.workspace(ref=" "), "must not be blank"),
    ("extra key", lambda w: w.workspace(extra=1), "extra"),
]


async def test_a_read_only_repository_is_refused_before_the_body(tmp_path: Path) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED).started()
    scene.repository.make_read_only()
    story = await scene.next_attempt()
    assert "PRG-L011" in str(story.reason)
    assert scene.runs == 0


@pytest.mark.parametrize(
    ("given", "reason"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
async def test_bad_input_fails_the_attempt_and_changes_nothing(
    tmp_path: Path, given: Callable[[AttemptScene], object], reason: str
) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.SETTLED)
    await scene.start(given(scene))

    story = await scene.next_attempt()

    assert story.status == AttemptStatus.FAILED
    assert reason in str(story.reason)
    assert scene.repository.head().commit == scene.input
    assert scene.repository.tags() == {}
    assert scene.repository.branch_names() == {"main"}
    assert scene.runs == 0


async def test_a_target_that_ran_too_far_ahead_is_refused_by_lineage(tmp_path: Path) -> None:
    scene = AttemptScene(tmp_path, PolicySetting.LINEAGE)
    for number in range(FIRST_PARENT_COMMITS_MAX + 1):
        scene.human(content=b"%d" % number)
    head = scene.repository.head().commit
    await scene.start()

    story = await scene.next_attempt()

    assert "advanced beyond supported publish range" in str(story.reason)
    assert scene.repository.head().commit == head
