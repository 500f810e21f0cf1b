"""Prefix isolation: the head may move elsewhere; what is published is what was staged."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.attempt_workers import AttemptWorker
from tests.unit.app.attempt.attempt_harness import AttemptHarness, reason_of
from tests.unit.app.attempt.attempt_scene import TASK, AttemptScene, assert_accepted

from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.attempt import AttemptStatus
from perago.domain.lakefs import CommitId
from perago.domain.outcome import TooManyTries
from perago.domain.policy import PolicySetting
from perago.testing.faults import (
    Crash,
    Fault,
    Meanwhile,
    Moment,
    Side,
    answer,
    crash,
    lose_answer,
    lose_request,
    meanwhile,
)

CREATE_TAG = "tags.create"
SPEC = WorkspaceSpec(prefix="data", isolation="prefix")


def _scene(tmp_path: Path, *, changes: bool = True) -> AttemptScene:
    return AttemptScene(tmp_path, PolicySetting.SETTLED, changes=changes, spec=SPEC)


def _moves(scene: AttemptScene, path: str = "elsewhere/human.txt") -> Meanwhile:
    return meanwhile(lambda: scene.human(path), before=CREATE_TAG)


async def test_a_head_that_moved_elsewhere_is_published_upon(tmp_path: Path) -> None:
    scene = _scene(tmp_path)
    await scene.start()
    story = await scene.next_attempt(_moves(scene))
    assert story.accepted, story.reason
    await assert_accepted(scene)
    assert scene.repository.files()["elsewhere/human.txt"] == b"human"
    assert scene.repository.branch_names() == {"main"}


@pytest.mark.parametrize("path", ["data/human.txt", "data/old.txt", "_lakefs_actions/other.txt"])
async def test_a_head_that_moved_inside_is_refused(tmp_path: Path, path: str) -> None:
    scene = _scene(tmp_path)
    await scene.start()

    def move() -> None:
        scene.repository.commit({path: b"name: x\n"}, unchecked=True)

    story = await scene.next_attempt(meanwhile(move, before=CREATE_TAG))

    assert "PRG-F002" in str(story.reason)
    assert scene.publications() == []


async def test_a_sibling_that_shares_the_prefix_is_elsewhere(tmp_path: Path) -> None:
    scene = _scene(tmp_path)
    await scene.start()
    story = await scene.next_attempt(_moves(scene, "data2/human.txt"))
    assert story.accepted, story.reason
    assert scene.repository.files()["data2/human.txt"] == b"human"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("elsewhere/human.txt", AttemptStatus.COMPLETED),
        ("data/human.txt", AttemptStatus.FAILED_WITH_TERMINAL_ERROR),
    ],
)
async def test_a_no_op_keeps_its_input_while_nothing_changed_under_its_prefix(
    tmp_path: Path, path: str, status: AttemptStatus
) -> None:
    scene = _scene(tmp_path, changes=False)
    await scene.start()
    story = await scene.next_attempt(_moves(scene, path))
    assert story.status == status
    if status is AttemptStatus.COMPLETED:
        assert story.output["workspace"] == scene.workspace()
    assert scene.publications() == []


TROUBLES: list[Fault] = [
    lose_request("merge"),
    lose_answer("merge"),
    answer("merge", TooManyTries("busy")),
    answer("onto-head", TooManyTries("busy")),
    lose_request("onto-head"),
    lose_answer("onto-head"),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=str)
async def test_a_merge_onto_a_moved_head_is_tried_again(tmp_path: Path, trouble: Fault) -> None:
    scene = _scene(tmp_path)
    await scene.start()
    story = await scene.next_attempt(_moves(scene), trouble)
    assert story.accepted, story.reason
    await assert_accepted(scene)
    assert scene.repository.files()["elsewhere/human.txt"] == b"human"
    assert scene.repository.branch_names() == {"main"}


@pytest.mark.parametrize("side", list(Side), ids=str)
@pytest.mark.parametrize("point", ["onto-head", "merge"])
async def test_a_retry_finishes_what_a_crash_left(tmp_path: Path, side: Side, point: str) -> None:
    scene = _scene(tmp_path)
    await scene.start()
    await scene.next_attempt(_moves(scene), Crash(Moment(point, side)))
    scene.human("elsewhere/later.txt")
    await scene.finished()
    assert scene.runs == 1
    assert len(scene.publications()) == 1
    assert scene.repository.files()["elsewhere/later.txt"] == b"human"


async def test_a_head_that_keeps_moving_elsewhere_is_followed(tmp_path: Path) -> None:
    scene = _scene(tmp_path)
    await scene.start()
    again = meanwhile(lambda: scene.human("elsewhere/again.txt"), before="merge")
    story = await scene.next_attempt(_moves(scene), again)
    assert story.accepted, story.reason
    await assert_accepted(scene)
    assert scene.repository.files()["elsewhere/again.txt"] == b"human"


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE], ids=str)
async def test_only_settled_isolates_a_prefix(tmp_path: Path, policy: PolicySetting) -> None:
    scene = AttemptScene(tmp_path, policy, spec=SPEC)
    await scene.start()
    story = await scene.next_attempt()
    assert 'isolation="prefix" needs policy settled' in str(story.reason)
    assert scene.runs == 0


async def _retry_on(harness: AttemptHarness, ref: CommitId) -> tuple[AttemptWorker, AttemptReport]:
    """The next attempt of the same chain, whose input expression resolved to another commit."""
    await harness.lose_lease()
    worker = harness.worker()
    record = await worker.poll(TASK)
    assert record is not None
    assert record.snapshot.retry_count > 0
    given = {**record.input_data, "workspace": harness.workspace(ref=ref)}
    return worker, await harness.drive(worker.run(replace(record, input_data=given)))


async def test_a_publication_of_the_chain_on_another_input_is_the_output(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, spec=SPEC)
    await harness.start()
    await harness.attempt(harness.worker([crash(after="merge")]))
    published = harness.repository.head().commit
    later = harness.human("elsewhere/later.txt")

    _, report = await _retry_on(harness, later)

    assert report.update is not None
    assert report.update.output["workspace"] == harness.workspace(ref=published)
    assert report.update.output["result"] == {"run": 1, "text": ""}
    assert harness.runs == 1


async def test_an_unpublished_decision_of_the_chain_on_another_input_is_terminal(
    tmp_path: Path,
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, spec=SPEC)
    await harness.start()
    await harness.attempt(harness.worker([crash(before="merge")]))
    later = harness.human("elsewhere/later.txt")

    _, report = await _retry_on(harness, later)

    assert report.status == AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert "PRG-F008" in reason_of(report)
    assert harness.publications() == []


async def test_of_several_decisions_of_the_chain_the_published_one_is_the_output(
    tmp_path: Path,
) -> None:
    """The order of their tags says nothing; neither does a decision on this very input."""
    for number in range(4):  # the tags are named by hashes, so that their order is chance
        harness = AttemptHarness(tmp_path / str(number), PolicySetting.SETTLED, spec=SPEC)
        await harness.start()
        await harness.attempt(harness.worker([crash(after="merge")]))
        published = harness.repository.head().commit
        (tag,) = harness.repository.tags()
        chain = tag.rpartition("-")[0]
        unpublished = harness.human(f"elsewhere/{number}.txt")
        harness.repository.tag(f"{chain}-{number:032x}", unpublished)

        _, report = await _retry_on(harness, harness.human("elsewhere/later.txt"))

        assert report.error is None, report.error
        assert report.update is not None
        assert report.update.output["workspace"] == harness.workspace(ref=published)


async def test_a_first_attempt_does_not_look_for_other_decisions(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, spec=SPEC)
    await harness.start()
    await harness.report()
    assert harness.workers[0].calls["tags.list_page"] == 0
