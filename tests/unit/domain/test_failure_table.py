"""The failure tables of documents 001 and 002 and of the specification, row by row."""

import pytest

from perago.domain.attempt import AttemptStatus
from perago.domain.failure_table import FAILURES, Failure, Step, keeps_result, status_after

FAILED = AttemptStatus.FAILED
TERMINAL = AttemptStatus.FAILED_WITH_TERMINAL_ERROR

TABLE = [
    # step                       any error  terminal error
    (Step.ENVELOPE, FAILED, FAILED),
    (Step.PARAMS, FAILED, TERMINAL),
    (Step.DIRECTORY, FAILED, FAILED),
    (Step.POLICY, FAILED, FAILED),
    (Step.RESUME, FAILED, TERMINAL),
    (Step.DOWNLOAD, FAILED, FAILED),
    (Step.PRE_GUARDRAILS, TERMINAL, TERMINAL),
    (Step.BODY, FAILED, TERMINAL),
    (Step.RESULT, FAILED, TERMINAL),
    (Step.POST_GUARDRAILS, FAILED, FAILED),
    (Step.DIFF, FAILED, FAILED),
    (Step.FENCE_BEFORE_STAGING, FAILED, FAILED),
    (Step.STAGE, FAILED, TERMINAL),
    (Step.DECIDE, FAILED, FAILED),
    (Step.READ_HEAD, FAILED, FAILED),
    (Step.FENCE_BEFORE_EFFECT, FAILED, FAILED),
    (Step.EFFECT, FAILED, FAILED),
    (Step.SETTLE, FAILED, FAILED),
]
KEEP = [Step.COMPLETE, Step.READ_BACK, Step.CLEAN_STAGING, Step.CLEAN_LOCAL]


@pytest.mark.parametrize(("step", "plain", "terminal"), TABLE, ids=[row[0].value for row in TABLE])
def test_a_failed_step_ends_the_attempt(
    step: Step, plain: AttemptStatus, terminal: AttemptStatus
) -> None:
    assert status_after(step, terminal=False) is plain
    assert status_after(step, terminal=True) is terminal
    assert not keeps_result(step)


@pytest.mark.parametrize("step", KEEP, ids=str)
def test_a_failure_after_the_result_keeps_it(step: Step) -> None:
    assert keeps_result(step)
    with pytest.raises(AssertionError) as caught:
        status_after(step, terminal=True)
    text = f"a failed step '{step.value}' keeps the result; there is no status to report"
    assert str(caught.value) == text


def test_every_step_has_exactly_one_row() -> None:
    assert sorted([*(row[0] for row in TABLE), *KEEP]) == sorted(Step)
    assert set(FAILURES) == set(Step)


def test_no_failure_is_ever_reported_as_success() -> None:
    reported = {row[column] for row in TABLE for column in (1, 2)}
    assert reported == {FAILED, TERMINAL}


def test_steps_are_told_by_their_names() -> None:
    before = "envelope, params, directory, policy, resume, download, pre guardrails, body, result"
    staging = "post guardrails, diff, attempt fence before staging, stage, decide"
    effect = "read head, attempt fence before the effect, effect, settle"
    after = "complete, read back, clean staging, clean local"
    assert ", ".join(Step) == f"{before}, {staging}, {effect}, {after}"


def test_what_a_failure_means_is_told_in_words() -> None:
    assert [meaning.value for meaning in Failure] == [
        "FAILED",
        "FAILED, unless the error is terminal",
        "FAILED_WITH_TERMINAL_ERROR",
        "the result is kept, the failure is logged",
    ]
