"""What the policy's table sees of the staged commit, if the policy's row asks for it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import AttemptScene

from perago.domain import policy, settled
from perago.domain.attempt import WorkflowStatus
from perago.domain.outcome import TooManyTries
from perago.domain.policy import Policy, PolicySetting, PolicyShape
from perago.domain.publication import Decision, PublicationFacts
from perago.testing.faults import answer, crash

Body = Callable[[Path, int], None]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[PublicationFacts]:
    """Facts of every decision from now on; `settled` asks what was removed, and decides as ever."""
    heard: list[PublicationFacts] = []

    def decide(facts: PublicationFacts) -> Decision:
        heard.append(facts)
        return settled.decide(facts)

    shapes = cast("dict[Policy, PolicyShape]", policy.SHAPES)
    asking = replace(shapes[Policy.SETTLED], decide=decide, reads_removed=True)
    monkeypatch.setitem(shapes, Policy.SETTLED, asking)
    return heard


def add(workspace: Path, run: int) -> None:
    (workspace / "new.txt").write_text(f"run {run}")
    (workspace / "old.txt").write_text(f"changed by run {run}")


def delete(workspace: Path, run: int) -> None:
    (workspace / "zebra.txt").write_text(f"run {run}")
    (workspace / "old.txt").unlink()
    (workspace / "kept.txt").unlink()


def rename(workspace: Path, run: int) -> None:
    (workspace / "old.txt").rename(workspace / f"old-{run}.txt")


def leave(workspace: Path, run: int) -> None:
    del workspace, run


@pytest.mark.parametrize(
    ("body", "removed"),
    [(add, None), (delete, "data/kept.txt"), (rename, "data/old.txt"), (leave, None)],
    ids=["adds and changes", "deletes two", "renames", "changes nothing"],
)
async def test_the_table_sees_the_first_object_that_is_removed(
    tmp_path: Path, seen: list[PublicationFacts], body: Body, removed: str | None
) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED, body=body).started()
    assert (await scene.finished()).status is WorkflowStatus.COMPLETED
    assert [facts.removed for facts in seen] == [removed]


async def test_a_resumed_attempt_sees_what_the_decided_commit_removes(
    tmp_path: Path, seen: list[PublicationFacts]
) -> None:
    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED, body=delete).started()
    await scene.next_attempt(crash(after="decide"))
    assert seen == []
    assert (await scene.finished()).status is WorkflowStatus.COMPLETED
    assert [facts.removed for facts in seen] == ["data/kept.txt"]
    assert scene.runs == 1


async def test_it_is_read_once_whatever_the_number_of_rounds(
    tmp_path: Path, seen: list[PublicationFacts]
) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED, body=delete).started()
    # The first two merges are those of the canary, which tries the fence.
    worker = harness.worker([answer("merge", TooManyTries("busy"))])
    await harness.attempt(worker)
    assert [facts.removed for facts in seen] == ["data/kept.txt"] * 2
    assert harness.workers[0].calls["commits.diff_page"] == 1


async def test_a_policy_that_does_not_ask_costs_no_request(tmp_path: Path) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED, body=delete).started()
    assert (await harness.finish()).status is WorkflowStatus.COMPLETED
    assert harness.workers[0].calls["commits.diff_page"] == 0
