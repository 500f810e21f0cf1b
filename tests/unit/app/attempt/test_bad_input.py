"""Bad input gets a clear error and loses nothing: the target and its tags stay as they were."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness, reason_of

from perago.domain.attempt import AttemptStatus
from perago.domain.lineage import FIRST_PARENT_COMMITS_MAX
from perago.domain.policy import PolicySetting

ROWS: list[tuple[str, Callable[[AttemptHarness], object], str]] = [
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
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED).started()
    harness.repository.make_read_only()
    report = await harness.report()
    assert "PRG-L011" in reason_of(report)
    assert harness.runs == 0


@pytest.mark.parametrize(
    ("given", "reason"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
async def test_bad_input_fails_the_attempt_and_changes_nothing(
    tmp_path: Path, given: Callable[[AttemptHarness], object], reason: str
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    await harness.start(given(harness))

    report = await harness.report()

    assert report.status == AttemptStatus.FAILED
    assert reason in reason_of(report)
    assert harness.repository.head().commit == harness.input
    assert harness.repository.tags() == {}
    assert harness.repository.branch_names() == {"main"}
    assert harness.runs == 0


async def test_a_target_that_ran_too_far_ahead_is_refused_by_lineage(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.LINEAGE)
    for number in range(FIRST_PARENT_COMMITS_MAX + 1):
        harness.human(content=b"%d" % number)
    head = harness.repository.head().commit
    await harness.start()

    report = await harness.report()

    assert "advanced beyond supported publish range" in str(report.error)
    assert harness.repository.head().commit == head
