"""Errors that end an attempt: their codes, their facts, and the texts people search for."""

import pytest

from perago.domain.attempt import Stale
from perago.domain.errors import (
    BodyFailedError,
    DamagedResultError,
    DecidedOnOtherInputError,
    FenceNotTrustedError,
    InputNotCommitError,
    OutcomeUnknownAtDeadlineError,
    PeragoError,
    PublicationRefusedError,
    PublishFenceError,
    ReservedPathError,
    ResultNotStorableError,
    ResultTooLargeError,
    StaleAttemptError,
)

WRITE = "write the data into the workspace and return its path"
FORGET = (
    "once the workflow has ended, run `perago reset-task WORKFLOW REFERENCE`, and its retry "
    "computes again"
)
STALE = Stale("retry_count", "1", "2")


@pytest.mark.parametrize(
    ("error", "code", "kind", "text"),
    [
        (PeragoError("x"), "PRG-X001", Exception, "x"),
        (PublishFenceError("x"), "PRG-F002", RuntimeError, "x"),
        (PublishFenceError("x", code="PRG-F004"), "PRG-F004", RuntimeError, "x"),
        (StaleAttemptError("t1"), "PRG-F001", RuntimeError, "t1"),
        (StaleAttemptError("t1", stale=STALE), "PRG-F001", RuntimeError,
         "t1 is stale: retry_count expected 1, found 2"),
        (FenceNotTrustedError("x"), "PRG-F020", RuntimeError, "x"),
        (OutcomeUnknownAtDeadlineError("no answer"), "PRG-U001", RuntimeError,
         "publication outcome unknown: no answer"),
        (PublicationRefusedError("x"), "PRG-L003", RuntimeError, "x"),
        (DecidedOnOtherInputError("x"), "PRG-F008", PublishFenceError, "x"),
        (InputNotCommitError("x"), "PRG-I006", ValueError, "x"),
        (BodyFailedError("x"), "PRG-B004", RuntimeError, "x"),
        (ResultTooLargeError(5, 3), "PRG-I010", ValueError,
         f"the result has 5 bytes as JSON, expected at most 3; {WRITE}"),
        (ResultNotStorableError("nan"), "PRG-I011", ValueError,
         "the result must be JSON without NaN and infinities: nan"),
        (DamagedResultError("half"), "PRG-I012", RuntimeError,
         f"the stored result is damaged: half; {FORGET}"),
        (ReservedPathError("_lakefs_actions/a"), "PRG-W001", RuntimeError,
         "_lakefs_actions/a is reserved; a task must not write below _lakefs_actions/"),
    ],
    ids=[
        "any", "publish fence", "publish fence with its own code", "stale, bare", "stale",
        "fence", "unknown", "refused", "decided on another input", "no commit", "body",
        "too large", "not JSON", "damaged", "reserved",
    ],
)  # fmt: skip
def test_an_error_has_a_code_a_kind_and_a_text(
    error: PeragoError, code: str, kind: type[Exception], text: str
) -> None:
    assert isinstance(error, kind)
    assert (error.code, str(error)) == (code, text)


@pytest.mark.parametrize(
    ("error", "terminal"),
    [
        (PeragoError("x"), False),
        (PublishFenceError("x"), False),
        (StaleAttemptError("t1"), False),
        (FenceNotTrustedError("x"), False),
        (OutcomeUnknownAtDeadlineError("x"), False),
        (PublicationRefusedError("x"), False),
        (InputNotCommitError("x"), False),
        (ResultNotStorableError("x"), False),
        (DamagedResultError("x"), True),
        (ReservedPathError("x"), False),
        (DecidedOnOtherInputError("x"), True),
        (ResultTooLargeError(5, 3), True),
        (PublishFenceError("x", terminal=True), True),
        (BodyFailedError("x"), False),
        (BodyFailedError("x", terminal=True), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_only_these_tell_conductor_not_to_try_again(
    error: PeragoError,
    terminal: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert error.terminal is terminal


def test_a_code_of_one_error_does_not_change_its_class() -> None:
    PublishFenceError("x", code="PRG-F004")
    assert PublishFenceError("y").code == "PRG-F002"


def test_errors_carry_their_facts() -> None:
    stale = StaleAttemptError("t1", stale=STALE)
    assert (stale.task_id, stale.stale) == ("t1", STALE)
    assert StaleAttemptError("t1").stale is None
    assert ReservedPathError("a").path == "a"
    assert ResultNotStorableError("nan").found == "nan"
    assert DamagedResultError("half").found == "half"
