"""Faults are values that say when they strike, and refuse moments that never come."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from perago.domain.commit_metadata import EXPECTED_HEAD, LOGICAL_TASK_KEY
from perago.domain.lakefs import BranchName, RepositoryId
from perago.ports.errors import UnavailableError
from perago.ports.lakefs import MergeRequest
from perago.testing import (
    ANY_CALL,
    POINTS,
    Answer,
    ArriveLate,
    Crash,
    Drain,
    ExpireLease,
    Fault,
    ForeignCommit,
    LoseAnswer,
    LoseRequest,
    Meanwhile,
    Moment,
    Outage,
    Refuse,
    Unavailable,
    Zombie,
    always,
    answer,
    arrive_late,
    crash,
    drain,
    expire_lease,
    foreign_commit,
    lose_answer,
    lose_request,
    meanwhile,
    outage,
    refuse,
    unavailable,
    zombie,
)
from perago.testing.faults import (
    FOREIGN_FILES,
    LOCAL_PORTS,
    OPERATIONS,
    Call,
    Side,
    Until,
    find_point,
)

ACCEPTED, BUSY = Until.ACCEPTED, UnavailableError("busy")
BEFORE_MERGE = Moment("merge", Side.BEFORE)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (crash(before="merge"), Crash(BEFORE_MERGE)),
        (
            crash(after="function", task="clean"),
            Crash(Moment("function", Side.AFTER, task="clean")),
        ),
        (crash(before="merge", nth=3), Crash(Moment("merge", Side.BEFORE, nth=3))),
        (lose_answer("merge", nth=2), LoseAnswer(Moment("merge", Side.AFTER, nth=2))),
        (lose_request("merge"), LoseRequest(BEFORE_MERGE)),
        (arrive_late("merge", nth=2), ArriveLate(Moment("merge", Side.BEFORE, nth=2), ACCEPTED)),
        (refuse("head", BUSY), Refuse(Moment("head", Side.BEFORE), BUSY)),
        (answer("merge", None), Answer(BEFORE_MERGE, None)),
        (meanwhile(print, after="merge"), Meanwhile(Moment("merge", Side.AFTER), print)),
        (always(crash(before="merge")), Crash(replace(BEFORE_MERGE, each_time=True))),
        (outage(after="stage"), Outage(Moment("stage", Side.AFTER), 20.0)),
        (unavailable("head"), Unavailable(Moment("head", Side.BEFORE))),
        (zombie(), Zombie(Moment("publish", Side.BEFORE), Until.ACCEPTED)),
        (
            zombie(attempt=2, until="retried", after="stage"),
            Zombie(Moment("stage", Side.AFTER, attempt=2), Until.RETRIED),
        ),
        (drain(before="merge"), Drain(BEFORE_MERGE)),
        (expire_lease(), ExpireLease(Moment("publish", Side.BEFORE))),
        (
            foreign_commit(after="stage"),
            ForeignCommit(Moment("stage", Side.AFTER), FOREIGN_FILES),
        ),
        (
            foreign_commit(before="merge", files={"a": None}),
            ForeignCommit(BEFORE_MERGE, {"a": None}),
        ),
    ],
    ids=str,
)
def test_a_fault_is_a_value(fault: Fault, expected: Fault) -> None:
    assert fault == expected


@pytest.mark.parametrize("name", [*POINTS, *sorted(OPERATIONS)])
def test_every_moment_and_every_call_of_a_port_can_have_a_fault(name: str) -> None:
    assert crash(before=name).moment.point == name
    point = find_point(name)
    assert point.is_remote is not any(
        operation.partition(".")[0] in LOCAL_PORTS for operation in point.operations
    )


@pytest.mark.parametrize("name", ["merg", "branches", "branches.push", "", "queue."])
def test_a_moment_that_does_not_exist_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected one of download, function, .*branches\.merge"):
        crash(before=name)


@pytest.mark.parametrize(
    "make",
    [
        crash,
        foreign_commit,
        lambda: crash(before="merge", after="merge"),
        lambda: zombie(before="merge", after="merge"),
    ],
    ids=["crash nowhere", "foreign commit nowhere", "crash twice", "zombie twice"],
)
def test_a_fault_needs_one_side_of_one_moment(make: Callable[[], Fault]) -> None:
    with pytest.raises(ValueError, match="one of before= and after="):
        make()


def outage_behind(point: str) -> Fault:
    """As the others are made."""
    return outage(after=point)


@pytest.mark.parametrize("point", ["function", "compare", "directories.create"])
@pytest.mark.parametrize(
    "make",
    [lose_answer, lose_request, arrive_late, unavailable, outage_behind],
)
def test_what_sends_nothing_has_no_answer_to_lose(make: Callable[[str], Fault], point: str) -> None:
    with pytest.raises(ValueError, match="sends no request"):
        make(point)


@pytest.mark.parametrize("point", ["download", "upload"])
def test_the_network_loses_one_request_of_a_transfer(point: str) -> None:
    """The transfer as a whole is no request, so only what others do can happen beside it."""
    assert lose_answer(point, nth=2).moment.point == f"objects.{point}"
    assert outage(before=point).moment.point == f"objects.{point}"
    assert crash(before=point).moment.point == point


@pytest.mark.parametrize("number", [0, -1])
def test_counts_begin_at_one(number: int) -> None:
    with pytest.raises(ValueError, match="counts from 1"):
        crash(before="merge", nth=number)
    with pytest.raises(ValueError, match="counts from 1"):
        crash(before="merge", attempt=number)


def test_a_zombie_waits_for_something_that_can_happen() -> None:
    with pytest.raises(ValueError, match="tomorrow"):
        zombie(until="tomorrow")


def test_a_moment_reads_as_a_sentence() -> None:
    assert str(BEFORE_MERGE) == "before merge"
    assert str(Moment("merge", Side.AFTER, nth=2)) == "after merge (call 2)"
    assert str(always(crash(before="merge")).moment) == "before merge (each from call 1)"


def test_any_call_is_every_request_and_no_step_of_the_worker() -> None:
    any_call = find_point(ANY_CALL)
    assert any_call.is_remote
    for name in OPERATIONS:
        assert any_call.is_reached_by(Call(name, (), {})) is find_point(name).is_remote


def test_the_canary_of_the_fence_is_no_moment_of_the_attempt() -> None:
    merge = MergeRequest(RepositoryId("r"), "canary", BranchName("x"), "m", {EXPECTED_HEAD: "c"})
    published = replace(merge, metadata={**merge.metadata, LOGICAL_TASK_KEY: "w/edit/0"})
    assert not find_point("merge").is_reached_by(Call("branches.merge", (merge,), {}))
    assert find_point("merge").is_reached_by(Call("branches.merge", (published,), {}))
    tried = replace(merge, target=BranchName("perago-staging-1-onto-2"))
    assert [
        find_point("onto-head").is_reached_by(Call("branches.merge", (request,), {}))
        for request in (merge, published, tried)
    ] == [False, False, True]
    for point, operation in (("branch", "branches.create"), ("clean-up", "branches.delete")):
        of_canary, of_attempt = ("r", "perago-canary-1"), ("r", "perago-staging-1")
        assert not find_point(point).is_reached_by(Call(operation, of_canary, {}))
        assert find_point(point).is_reached_by(Call(operation, of_attempt, {}))


def test_a_call_is_the_moment_of_its_own_operation_only() -> None:
    assert find_point("head").is_reached_by(Call("branches.head", (), {}))
    assert not find_point("head").is_reached_by(Call("branches.merge", (), {}))
