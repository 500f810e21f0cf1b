"""What garbage collection may remove, kind by kind, as the table of the specification says."""

from datetime import timedelta
from itertools import product

import pytest

from perago.domain.attempt import (
    AttemptSnapshot,
    AttemptStatus,
    WorkflowSnapshot,
    WorkflowStatus,
)
from perago.domain.retention import (
    AttemptStanding,
    Keep,
    Owner,
    Remove,
    Retention,
    RetentionTimes,
    StagingBranchFacts,
    WorkflowStanding,
    judge_attempt_directory,
    judge_attempt_mark,
    judge_canary_branch,
    judge_checkpoint,
    judge_decision,
    judge_relocated_tag,
    judge_run,
    judge_staging_branch,
    standing_of,
    standing_of_attempt,
    standing_of_task,
)

TIMES = RetentionTimes()
NOW = RetentionTimes(*[timedelta(0)] * 6)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
YEAR = timedelta(days=365)

BY_AGE = "by age"
KEEP = "keep"
REMOVE = "remove"


def word(verdict: Retention) -> str:
    assert isinstance(verdict, Remove | Keep)
    return REMOVE if isinstance(verdict, Remove) else KEEP


def word_over_time(young: Retention, old: Retention) -> str:
    """Keep, remove, or by age: what a verdict is before and after the time to live."""
    return word(young) if word(young) == word(old) else BY_AGE


def test_the_times_are_the_ones_of_the_specification() -> None:
    assert (
        RetentionTimes(
            attempt_directory=DAY,
            staging_branch=DAY,
            decision=7 * DAY,
            relocated=30 * DAY,
            canary=HOUR,
        )
        == TIMES
    )


@pytest.mark.parametrize(
    ("owner", "verdict"),
    [(Owner.ALIVE, KEEP), (Owner.GONE, REMOVE), (Owner.UNKNOWN, BY_AGE)],
    ids=str,
)
def test_an_attempt_directory_goes_with_its_owner(owner: Owner, verdict: str) -> None:
    young = judge_attempt_directory(owner, DAY - SECOND, TIMES)
    assert word_over_time(young, judge_attempt_directory(owner, DAY, TIMES)) == verdict


@pytest.mark.parametrize(
    ("task", "verdict"),
    [
        (AttemptStanding.LIVE, BY_AGE),
        (AttemptStanding.UNKNOWN, BY_AGE),
        (AttemptStanding.TERMINAL, REMOVE),
    ],
    ids=str,
)
def test_a_directory_with_an_outcome_waits_for_the_next_attempt(
    task: AttemptStanding, verdict: str
) -> None:
    young = judge_attempt_directory(Owner.GONE, DAY - SECOND, TIMES, task)
    assert word_over_time(young, judge_attempt_directory(Owner.GONE, DAY, TIMES, task)) == verdict


@pytest.mark.parametrize(
    ("statuses", "standing"),
    [
        ([AttemptStatus.IN_PROGRESS], AttemptStanding.LIVE),
        ([AttemptStatus.TIMED_OUT, AttemptStatus.SCHEDULED], AttemptStanding.LIVE),
        ([AttemptStatus.TIMED_OUT], AttemptStanding.LIVE),
        ([AttemptStatus.FAILED], AttemptStanding.LIVE),
        ([AttemptStatus.TIMED_OUT, AttemptStatus.COMPLETED], AttemptStanding.TERMINAL),
        ([AttemptStatus.FAILED_WITH_TERMINAL_ERROR], AttemptStanding.TERMINAL),
        ([AttemptStatus.CANCELED], AttemptStanding.TERMINAL),
    ],
)
def test_a_task_is_over_when_no_retry_of_it_may_come(
    statuses: list[AttemptStatus], standing: AttemptStanding
) -> None:
    rows = tuple(
        AttemptSnapshot("w", f"t{number}", "ref", "edit", status, seq=number)
        for number, status in enumerate(statuses)
    )
    other = AttemptSnapshot("w", "other", "another", "edit", AttemptStatus.COMPLETED, seq=9)
    workflow = WorkflowSnapshot("w", WorkflowStatus.RUNNING, (*rows, other))
    assert standing_of_task(workflow, "t0") is standing
    assert standing_of_task(workflow, "unknown") is AttemptStanding.UNKNOWN
    assert standing_of_task(None, "t0") is AttemptStanding.UNKNOWN


HELD_BY = {
    "nothing": (False, False, False),
    "an unknown outcome": (False, True, False),
    "a decision": (True, False, False),
    "both": (True, True, False),
    "a staged commit": (False, False, True),
}
LIVE, TERMINAL, UNKNOWN = WorkflowStanding
STAGING = [
    # workflow, held by           attempt: live, terminal, replaced, unknown
    (LIVE, "nothing", KEEP, REMOVE, REMOVE, BY_AGE),
    (LIVE, "an unknown outcome", KEEP, KEEP, KEEP, KEEP),
    (LIVE, "a decision", KEEP, KEEP, KEEP, KEEP),
    (LIVE, "both", KEEP, KEEP, KEEP, KEEP),
    (LIVE, "a staged commit", KEEP, BY_AGE, BY_AGE, BY_AGE),
    (TERMINAL, "nothing", BY_AGE, REMOVE, REMOVE, BY_AGE),
    (TERMINAL, "an unknown outcome", BY_AGE, REMOVE, REMOVE, BY_AGE),
    (TERMINAL, "a decision", KEEP, KEEP, KEEP, KEEP),
    (TERMINAL, "both", KEEP, KEEP, KEEP, KEEP),
    (TERMINAL, "a staged commit", BY_AGE, BY_AGE, BY_AGE, BY_AGE),
    (UNKNOWN, "nothing", BY_AGE, REMOVE, REMOVE, BY_AGE),
    (UNKNOWN, "an unknown outcome", BY_AGE, BY_AGE, BY_AGE, BY_AGE),
    (UNKNOWN, "a decision", KEEP, KEEP, KEEP, KEEP),
    (UNKNOWN, "both", KEEP, KEEP, KEEP, KEEP),
    (UNKNOWN, "a staged commit", BY_AGE, BY_AGE, BY_AGE, BY_AGE),
]


@pytest.mark.parametrize("row", STAGING, ids=[f"{row[0]}, held by {row[1]}" for row in STAGING])
def test_a_staging_branch_goes_with_its_attempt(
    row: tuple[WorkflowStanding, str, str, str, str, str],
) -> None:
    workflow, held_by, *verdicts = row
    held = HELD_BY[held_by]
    for attempt, verdict in zip(AttemptStanding, verdicts, strict=True):
        young, old = (
            judge_staging_branch(StagingBranchFacts(age, attempt, workflow, *held), TIMES)
            for age in (DAY - SECOND, DAY)
        )
        assert word_over_time(young, old) == verdict, attempt


def test_the_staging_table_is_complete() -> None:
    assert [row[:2] for row in STAGING] == list(product(WorkflowStanding, HELD_BY))


@pytest.mark.parametrize(
    ("workflow", "verdict"),
    [(LIVE, KEEP), (TERMINAL, BY_AGE), (UNKNOWN, BY_AGE)],
    ids=["live", "terminal", "unknown"],
)
def test_a_decision_and_then_its_marks_go_after_their_workflow(
    workflow: WorkflowStanding, verdict: str
) -> None:
    before, after = 7 * DAY - SECOND, 7 * DAY
    decisions = [judge_decision(workflow, age, TIMES) for age in (before, after)]
    marks = [
        judge_attempt_mark(workflow, age, TIMES, decisions_left=False) for age in (before, after)
    ]
    assert word_over_time(*decisions) == word_over_time(*marks) == verdict


@pytest.mark.parametrize("workflow", WorkflowStanding, ids=str)
def test_no_mark_goes_before_a_decision(workflow: WorkflowStanding) -> None:
    verdict = judge_attempt_mark(workflow, YEAR, TIMES, decisions_left=True)
    assert isinstance(verdict, Keep)


@pytest.mark.parametrize(
    ("judge", "limit"),
    [(judge_relocated_tag, 30 * DAY), (judge_canary_branch, HOUR)],
    ids=["tag of a relocation", "canary branch"],
)
def test_some_leftovers_go_by_age_alone(judge: object, limit: timedelta) -> None:
    assert callable(judge)
    assert isinstance(judge(limit - SECOND, TIMES), Keep)
    assert isinstance(judge(limit, TIMES), Remove)


@pytest.mark.parametrize("none", [timedelta(0), None], ids=["just made", "age not known"])
def test_a_time_to_live_of_zero_keeps_nothing_by_age(none: timedelta | None) -> None:
    orphan = StagingBranchFacts(none, AttemptStanding.UNKNOWN, UNKNOWN)
    assert [
        word(verdict)
        for verdict in (
            judge_attempt_directory(Owner.UNKNOWN, timedelta(0), NOW),
            judge_staging_branch(orphan, NOW),
            judge_decision(TERMINAL, timedelta(0), NOW),
            judge_relocated_tag(none, NOW),
            judge_canary_branch(none, NOW),
        )
    ] == [REMOVE] * 5


def test_what_does_not_tell_its_age_stays() -> None:
    why = "and its age is unknown"
    orphan = StagingBranchFacts(None, AttemptStanding.UNKNOWN, UNKNOWN)
    assert [
        judge_staging_branch(orphan, TIMES),
        judge_relocated_tag(None, TIMES),
        judge_canary_branch(None, TIMES),
    ] == [
        Keep(f"no attempt is known to use it, {why}"),
        Keep(f"it names what a relocation replaced, {why}"),
        Keep(f"the fence check that made it is over, {why}"),
    ]


def row(task_id: str, seq: int, status: AttemptStatus, *, retried: bool = False) -> AttemptSnapshot:
    return AttemptSnapshot("w", task_id, "edit", "edit", status, seq=seq, retried=retried)


RUNS, FAILS = AttemptStatus.IN_PROGRESS, AttemptStatus.FAILED


@pytest.mark.parametrize(
    ("rows", "standing"),
    [
        ([row("t", 1, RUNS)], AttemptStanding.LIVE),
        ([row("t", 1, FAILS)], AttemptStanding.TERMINAL),
        ([row("t", 1, FAILS, retried=True)], AttemptStanding.REPLACED),
        ([row("t", 1, RUNS), row("u", 2, RUNS)], AttemptStanding.REPLACED),
        ([row("u", 2, RUNS)], AttemptStanding.UNKNOWN),
        ([], AttemptStanding.UNKNOWN),
    ],
    ids=["in progress", "ended", "retried", "beside its retry", "row is gone", "no rows"],
)
def test_an_attempt_stands_as_the_rows_of_its_workflow_say(
    rows: list[AttemptSnapshot], standing: AttemptStanding
) -> None:
    workflow = WorkflowSnapshot("w", WorkflowStatus.RUNNING, tuple(rows))
    assert standing_of_attempt(workflow, "t") is standing
    assert standing_of_attempt(None, "t") is AttemptStanding.UNKNOWN


@pytest.mark.parametrize("status", WorkflowStatus, ids=str)
def test_a_workflow_stands_as_its_status_says(status: WorkflowStatus) -> None:
    live = status in {WorkflowStatus.RUNNING, WorkflowStatus.PAUSED}
    assert standing_of(WorkflowSnapshot("w", status, ())) is (LIVE if live else TERMINAL)
    assert standing_of(None) is UNKNOWN


def staging(
    attempt: AttemptStanding, *, decision: bool = False, outcome: bool = False
) -> Retention:
    return judge_staging_branch(StagingBranchFacts(HOUR, attempt, LIVE, decision, outcome), TIMES)


OLD, YOUNG = "and it is older than", "but it is younger than"
WEEK = "7 days"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (judge_attempt_directory(Owner.ALIVE, YEAR, TIMES), Keep("its process is running")),
        (judge_attempt_directory(Owner.GONE, HOUR, TIMES), Remove("its process has ended")),
        (judge_attempt_directory(Owner.GONE, HOUR, TIMES, AttemptStanding.TERMINAL),
         Remove("its task is over")),
        (judge_attempt_directory(Owner.GONE, HOUR, TIMES, AttemptStanding.LIVE),
         Keep(f"a later attempt may go on with it, {YOUNG} 24 h; it goes in 23 h")),
        (judge_attempt_directory(Owner.UNKNOWN, YEAR, TIMES),
         Remove(f"no process holds its lock, {OLD} 24 h")),
        (staging(AttemptStanding.LIVE), Keep("its attempt is in progress")),
        (staging(AttemptStanding.REPLACED), Remove("its attempt is replaced")),
        (staging(AttemptStanding.TERMINAL), Remove("its attempt is terminal")),
        (staging(AttemptStanding.TERMINAL, decision=True),
         Keep("a decision needs it and is removed first")),
        (staging(AttemptStanding.TERMINAL, outcome=True),
         Keep("the outcome of its publication is unknown and its workflow is not terminal")),
        (staging(AttemptStanding.UNKNOWN),
         Keep(f"no attempt is known to use it, {YOUNG} 24 h; it goes in 23 h")),
        (judge_staging_branch(
            StagingBranchFacts(HOUR, AttemptStanding.REPLACED, LIVE, undecided=True), TIMES),
         Keep("its attempt is replaced and may still decide on its staged commit,"
              f" {YOUNG} 24 h; it goes in 23 h")),
        (judge_decision(LIVE, YEAR, TIMES), Keep("its workflow is not terminal")),
        (judge_decision(TERMINAL, HOUR, TIMES),
         Keep(f"its workflow is terminal, {YOUNG} {WEEK}; it goes in 6 days")),
        (judge_decision(UNKNOWN, YEAR, TIMES), Remove(f"its workflow is unknown, {OLD} {WEEK}")),
        (judge_attempt_mark(TERMINAL, YEAR, TIMES, decisions_left=True),
         Keep("decisions of its workflow are removed first")),
        (judge_attempt_mark(LIVE, YEAR, TIMES, decisions_left=True),
         Keep("its workflow is not terminal")),
        (judge_relocated_tag(YEAR, TIMES),
         Remove(f"it names what a relocation replaced, {OLD} 30 days")),
        (judge_canary_branch(YEAR, TIMES),
         Remove(f"the fence check that made it is over, {OLD} 60 min")),
    ],
    ids=[
        "living owner", "gone owner", "task over", "task goes on", "unknown owner",
        "attempt in progress", "attempt replaced",
        "attempt terminal", "decision", "unknown outcome", "unknown attempt", "staged commit",
        "live workflow",
        "young decision", "old decision", "mark after decisions", "mark of a live workflow",
        "relocation", "canary",
    ],
)  # fmt: skip
def test_every_verdict_has_a_reason_for_the_log(verdict: Retention, expected: Retention) -> None:
    assert verdict == expected


def test_what_conductor_and_the_lock_say_is_put_in_words() -> None:
    assert [owner.value for owner in Owner] == ["alive", "gone", "unknown"]
    assert [one.value for one in AttemptStanding] == ["live", "terminal", "replaced", "unknown"]
    assert [one.value for one in WorkflowStanding] == ["live", "terminal", "unknown"]


def test_nothing_holds_a_staging_branch_that_was_not_said_to() -> None:
    plain = StagingBranchFacts(HOUR, AttemptStanding.TERMINAL, LIVE)
    assert (plain.decision_points_at_it, plain.outcome_unknown, plain.undecided) == (False,) * 3


@pytest.mark.parametrize(
    ("workflow", "decided", "expected"),
    [
        (WorkflowStanding.LIVE, False, KEEP),
        (WorkflowStanding.TERMINAL, False, BY_AGE),
        (WorkflowStanding.UNKNOWN, False, BY_AGE),
        (WorkflowStanding.LIVE, True, REMOVE),
        (WorkflowStanding.TERMINAL, True, REMOVE),
        (WorkflowStanding.UNKNOWN, True, REMOVE),
    ],
)
def test_a_checkpoint_goes_with_the_decision_or_after_its_workflow(
    workflow: WorkflowStanding,
    decided: bool,  # noqa: FBT001
    expected: str,
) -> None:
    young, old = (
        judge_checkpoint(workflow, age, TIMES, decided=decided) for age in (DAY - SECOND, DAY)
    )
    assert word_over_time(young, old) == expected


@pytest.mark.parametrize(
    ("workflow", "decided", "expected"),
    [
        (WorkflowStanding.LIVE, False, KEEP),
        (WorkflowStanding.LIVE, True, KEEP),
        (WorkflowStanding.TERMINAL, False, BY_AGE),
        (WorkflowStanding.TERMINAL, True, KEEP),
        (WorkflowStanding.UNKNOWN, False, BY_AGE),
        (WorkflowStanding.UNKNOWN, True, KEEP),
    ],
)
def test_a_run_outlives_its_workflow(
    workflow: WorkflowStanding,
    decided: bool,  # noqa: FBT001
    expected: str,
) -> None:
    young, old = (
        judge_run(workflow, age, TIMES, decided=decided) for age in (7 * DAY - SECOND, 7 * DAY)
    )
    assert word_over_time(young, old) == expected
    assert word(judge_run(workflow, None, TIMES, decided=decided)) == KEEP
    no_age = judge_run(workflow, None, NOW, decided=decided)
    assert word(no_age) == (REMOVE if expected == BY_AGE else KEEP)
