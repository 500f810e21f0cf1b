"""Prefix isolation: the head may move elsewhere; what is published is what was staged."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.attempt_worlds import AttemptWorker
from tests.unit.app.attempt.fault_world import TASK, FaultWorld, assert_accepted, reason_of

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


def _world(tmp_path: Path, *, changes: bool = True) -> FaultWorld:
    spec = WorkspaceSpec(prefix="data", isolation="prefix")
    return FaultWorld(tmp_path, PolicySetting.SETTLED, changes=changes, spec=spec)


def _moves(world: FaultWorld, path: str = "elsewhere/human.txt") -> Meanwhile:
    return meanwhile(lambda: world.human(path), before=CREATE_TAG)


async def test_a_head_that_moved_elsewhere_is_published_upon(tmp_path: Path) -> None:
    world = _world(tmp_path)
    await world.start()
    report = await world.report(_moves(world))
    assert report.error is None
    await assert_accepted(world)
    assert world.repository.files()["elsewhere/human.txt"] == b"human"
    assert world.repository.branch_names() == {"main"}


@pytest.mark.parametrize("path", ["data/human.txt", "data/old.txt", "_lakefs_actions/other.txt"])
async def test_a_head_that_moved_inside_is_refused(tmp_path: Path, path: str) -> None:
    world = _world(tmp_path)
    await world.start()

    def move() -> None:
        world.repository.commit({path: b"name: x\n"}, unchecked=True)

    report = await world.report(meanwhile(move, before=CREATE_TAG))

    assert "PRG-F002" in reason_of(report)
    assert world.publications() == []


async def test_a_sibling_that_shares_the_prefix_is_elsewhere(tmp_path: Path) -> None:
    world = _world(tmp_path)
    await world.start()
    report = await world.report(_moves(world, "data2/human.txt"))
    assert report.error is None
    assert world.repository.files()["data2/human.txt"] == b"human"


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
    world = _world(tmp_path, changes=False)
    await world.start()
    report = await world.report(_moves(world, path))
    assert report.update is not None
    assert report.status == status
    if status is AttemptStatus.COMPLETED:
        assert report.update.output["workspace"] == world.workspace()
    assert world.publications() == []


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
    world = _world(tmp_path)
    await world.start()
    report = await world.report(_moves(world), trouble)
    assert report.error is None, report.error
    await assert_accepted(world)
    assert world.repository.files()["elsewhere/human.txt"] == b"human"
    assert world.repository.branch_names() == {"main"}


@pytest.mark.parametrize("side", list(Side), ids=str)
@pytest.mark.parametrize("point", ["onto-head", "merge"])
async def test_a_retry_finishes_what_a_crash_left(tmp_path: Path, side: Side, point: str) -> None:
    world = _world(tmp_path)
    await world.start()
    await world.attempt(world.worker([_moves(world), Crash(Moment(point, side))]))
    world.human("elsewhere/later.txt")
    await world.finish()
    assert world.runs == 1
    assert len(world.publications()) == 1
    assert world.repository.files()["elsewhere/later.txt"] == b"human"


async def test_a_head_that_keeps_moving_elsewhere_is_followed(tmp_path: Path) -> None:
    world = _world(tmp_path)
    await world.start()
    again = meanwhile(lambda: world.human("elsewhere/again.txt"), before="merge")
    report = await world.report(_moves(world), again)
    assert report.error is None, report.error
    await assert_accepted(world)
    assert world.repository.files()["elsewhere/again.txt"] == b"human"


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE], ids=str)
async def test_only_settled_isolates_a_prefix(tmp_path: Path, policy: PolicySetting) -> None:
    world = _world(tmp_path)
    world.policy = policy
    await world.start()
    report = await world.report()
    assert 'isolation="prefix" needs policy settled' in reason_of(report)
    assert world.runs == 0


async def _retry_on(world: FaultWorld, ref: CommitId) -> tuple[AttemptWorker, AttemptReport]:
    """The next attempt of the same chain, whose input expression resolved to another commit."""
    await world.lose_lease()
    worker = world.worker()
    record = await worker.poll(TASK)
    assert record is not None
    assert record.snapshot.retry_count > 0
    given = {**record.input_data, "workspace": world.workspace(ref=ref)}
    return worker, await world.drive(worker.run(replace(record, input_data=given)))


async def test_a_publication_of_the_chain_on_another_input_is_the_output(tmp_path: Path) -> None:
    world = _world(tmp_path)
    await world.start()
    await world.attempt(world.worker([crash(after="merge")]))
    published = world.repository.head().commit
    later = world.human("elsewhere/later.txt")

    _, report = await _retry_on(world, later)

    assert report.update is not None
    assert report.update.output["workspace"] == world.workspace(ref=published)
    assert report.update.output["result"] == {"run": 1, "text": ""}
    assert world.runs == 1


async def test_an_unpublished_decision_of_the_chain_on_another_input_is_terminal(
    tmp_path: Path,
) -> None:
    world = _world(tmp_path)
    await world.start()
    await world.attempt(world.worker([crash(before="merge")]))
    later = world.human("elsewhere/later.txt")

    _, report = await _retry_on(world, later)

    assert report.status == AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert "PRG-F008" in reason_of(report)
    assert world.publications() == []


async def test_of_several_decisions_of_the_chain_the_published_one_is_the_output(
    tmp_path: Path,
) -> None:
    """The order of their tags says nothing; neither does a decision on this very input."""
    for number in range(4):  # the tags are named by hashes, so that their order is chance
        world = _world(tmp_path / str(number))
        await world.start()
        await world.attempt(world.worker([crash(after="merge")]))
        published = world.repository.head().commit
        (tag,) = world.repository.tags()
        chain = tag.rpartition("-")[0]
        unpublished = world.human(f"elsewhere/{number}.txt")
        world.repository.tag(f"{chain}-{number:032x}", unpublished)

        _, report = await _retry_on(world, world.human("elsewhere/later.txt"))

        assert report.error is None, report.error
        assert report.update is not None
        assert report.update.output["workspace"] == world.workspace(ref=published)


async def test_a_first_attempt_does_not_look_for_other_decisions(tmp_path: Path) -> None:
    world = _world(tmp_path)
    await world.start()
    await world.report()
    assert world.workers[0].calls["tags.list_page"] == 0
