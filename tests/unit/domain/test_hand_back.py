"""Which end an attempt gets by cause and moment, and what a row remembers of its hand-backs."""

from collections.abc import Mapping

import pytest

from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.hand_back import (
    ENDINGS,
    FIRST_PAUSE_SECONDS,
    HAND_BACKS_MAX,
    HANDED_BACK,
    STORED_REASON_CHARACTERS_MAX,
    Cause,
    Ending,
    HandBacks,
    Moment,
    RowLimits,
    all_reasons,
    ending_for,
    hand_backs_of,
    pause_seconds,
)

BEFORE, IN, AFTER = Moment.BEFORE_FUNCTION, Moment.IN_FUNCTION, Moment.AFTER_FUNCTION
FAIL, BACK = Ending.FAIL, Ending.HAND_BACK
EXECUTION = ExecutionId("e1")


@pytest.mark.parametrize(
    ("cause", "before", "inside", "after"),
    [
        (Cause.STALE, Ending.NOTHING, Ending.NOTHING, Ending.NOTHING),
        (
            Cause.REFUSED_FOR_GOOD,
            Ending.FAIL_FOR_GOOD,
            Ending.FAIL_FOR_GOOD,
            Ending.FAIL_FOR_GOOD,
        ),
        (Cause.FAILED, FAIL, FAIL, FAIL),
        (Cause.DRAIN, BACK, BACK, BACK),
        (Cause.SERVICE_AWAY, BACK, FAIL, FAIL),
        (Cause.DISK_FULL, BACK, FAIL, FAIL),
        (Cause.WORKER_DIED, BACK, BACK, BACK),
    ],
    ids=str,
)
def test_the_table(cause: Cause, before: Ending, inside: Ending, after: Ending) -> None:
    assert [ending_for(cause, moment) for moment in (BEFORE, IN, AFTER)] == [before, inside, after]


def test_the_table_has_every_cause_and_moment() -> None:
    assert set(ENDINGS) == set(Cause)
    assert all(set(row) == set(Moment) for row in ENDINGS.values())


@pytest.mark.parametrize(
    ("cause", "ending"),
    [
        (Cause.DRAIN, BACK),
        (Cause.SERVICE_AWAY, FAIL),
        (Cause.DISK_FULL, FAIL),
        (Cause.WORKER_DIED, FAIL),
    ],
    ids=[
        "0.6.1 said nothing of a drain",
        "a service away is FAILED",
        "a full disk is FAILED",
        "a dead worker's request may be on its way",
    ],
)
def test_the_documents_policies_keep_what_the_documents_say(cause: Cause, ending: Ending) -> None:
    assert ending_for(cause, BEFORE, documents_policy=True) is ending


def test_five_hand_backs_and_then_it_fails_with_all_reasons() -> None:
    endings = [ending_for(Cause.DRAIN, BEFORE, hand_backs=number) for number in range(7)]
    assert endings == [BACK] * HAND_BACKS_MAX + [Ending.GIVE_UP] * 2


def test_a_failure_of_the_task_is_one_however_often_its_row_came_back() -> None:
    assert ending_for(Cause.FAILED, IN, hand_backs=HAND_BACKS_MAX) is FAIL
    assert ending_for(Cause.SERVICE_AWAY, AFTER, hand_backs=HAND_BACKS_MAX) is FAIL


@pytest.mark.parametrize(
    ("limits", "endings"),
    [
        (RowLimits(), [BACK, BACK, BACK]),
        (RowLimits(poll_seconds=60), [FAIL, FAIL, FAIL]),
        (RowLimits(execution_seconds=3600), [BACK, FAIL, FAIL]),
    ],
    ids=["none", "poll time-out: the row would time out at once", "execution time-out: too little"],
)
def test_limits_that_a_row_goes_on_counting_make_it_fail(
    limits: RowLimits, endings: list[Ending]
) -> None:
    assert [ending_for(Cause.DRAIN, moment, limits=limits) for moment in Moment] == endings


def test_a_row_waits_longer_each_time_and_not_at_all_after_a_drain() -> None:
    waits = [pause_seconds(Cause.SERVICE_AWAY, number) for number in range(3)]
    assert waits == [FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS, 4 * FIRST_PAUSE_SECONDS]
    assert pause_seconds(Cause.DRAIN, 3) == 0
    assert pause_seconds(Cause.WORKER_DIED, 3) == 0


def row(output: Mapping[str, object], *, scheduled_time: int = 100) -> AttemptRecord:
    snapshot = AttemptSnapshot(
        "workflow", "task", "only", "edit", AttemptStatus.IN_PROGRESS, scheduled_time=scheduled_time
    )
    return AttemptRecord(snapshot, output_data=output)


def test_what_a_row_carries_is_read_back() -> None:
    given = HandBacks(100).and_then(EXECUTION, "drain").and_then(ExecutionId("e2"), "disk")
    assert hand_backs_of(row(given.as_output())) == given
    assert len(given) == 2
    assert len(hand_backs_of(row({}))) == 0


def test_a_rerun_keeps_the_row_and_begins_to_count_anew() -> None:
    carried = HandBacks(100).and_then(EXECUTION, "drain").as_output()
    assert hand_backs_of(row(carried, scheduled_time=200)) == HandBacks(200)


@pytest.mark.parametrize(
    "foreign",
    [
        {HANDED_BACK: "five"},
        {HANDED_BACK: {"scheduledTime": 100}},
        {HANDED_BACK: {"scheduledTime": 100, "by": "me"}},
        {HANDED_BACK: {"scheduledTime": 100, "by": [1, None]}},
        {"result": {"rows": 3}},
    ],
    ids=["text", "nobody", "no list", "no entries", "an output"],
)
def test_what_is_not_of_our_form_does_not_count(foreign: Mapping[str, object]) -> None:
    assert hand_backs_of(row(foreign)) == HandBacks(100)


def test_a_stored_reason_is_cut() -> None:
    given = HandBacks(100).and_then(EXECUTION, "x" * 1000)
    assert [len(reason) for reason in given.reasons] == [STORED_REASON_CHARACTERS_MAX]


def test_every_reason_has_room_and_equal_ones_are_one() -> None:
    reasons = ["lakeFS away", "lakeFS away", "worker draining " + "x" * 500]
    text = all_reasons(reasons, characters_max=100)
    assert len(text) <= 100
    assert text.startswith("worker draining xxx")
    assert text.endswith("; 2 times: lakeFS away")
