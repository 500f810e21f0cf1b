"""Errors that end an attempt: their codes, their facts, and the texts people search for.

The public errors keep the families that callers of 0.6.1 catch, and carry a code.

Errors of Spark tasks carry their facts and say what to do.
"""

import pickle
from typing import cast

import pytest

from perago.domain import errors
from perago.domain.attempt import Stale
from perago.domain.errors import (
    BodyFailedError,
    DamagedResultError,
    DecidedOnOtherInputError,
    FenceNotTrustedError,
    GuardrailViolation,
    InputNotCommitError,
    OpenStreamError,
    OutcomeUnknownAtDeadlineError,
    OutsidePrefixError,
    PeragoError,
    PostGuardrailViolation,
    PreGuardrailViolation,
    PublicationRefusedError,
    PublishFenceError,
    ReadOnlyWorkspaceError,
    ReservedPathError,
    ResultNotStorableError,
    ResultTooLargeError,
    RuntimeConfigError,
    SparkEnvironmentError,
    SparkPathError,
    SparkSessionError,
    StaleAttemptError,
    StoredResultError,
    TaskDefinitionError,
    TaskExecutionError,
    TaskFailed,
    TaskInputError,
    TaskTerminalError,
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
    assert str(ReservedPathError("a")).startswith("a is reserved")
    assert str(ResultNotStorableError("nan")).endswith("without NaN and infinities: nan")
    assert DamagedResultError("half").fault == "the stored result is damaged: half"


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (TaskDefinitionError, ValueError),
        (RuntimeConfigError, ValueError),
        (TaskInputError, ValueError),
        (TaskExecutionError, RuntimeError),
        (TaskFailed, TaskExecutionError),
        (TaskTerminalError, TaskExecutionError),
        (GuardrailViolation, RuntimeError),
        (PreGuardrailViolation, GuardrailViolation),
        (PostGuardrailViolation, GuardrailViolation),
    ],
)
def test_an_error_belongs_to_the_family_of_0_6_1(
    error: type[Exception], family: type[Exception]
) -> None:
    assert issubclass(error, family)
    assert issubclass(error, PeragoError)


def test_every_error_names_its_own_code() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    own = [each for each in classes if each.__module__ == errors.__name__]
    # A base that is never raised itself: each of its two children has a code.
    raised = [each for each in own if each.__name__ != "ResetNeededError"]
    assert len(raised) > 25
    assert all(each.__dict__["code"].startswith("PRG-") for each in raised)


def test_one_raise_may_name_a_finer_code() -> None:
    assert TaskDefinitionError("text", code="PRG-T009").code == "PRG-T009"
    assert TaskDefinitionError("text").code == "PRG-T001"


@pytest.mark.parametrize("error", [TaskExecutionError, TaskFailed, TaskTerminalError])
def test_a_reason_must_be_text(error: type[TaskExecutionError]) -> None:
    with pytest.raises(TypeError, match=r"^reason must be str$"):
        error(cast("str", 3))
    assert error("because").reason == str(error("because")) == "because"


@pytest.mark.parametrize(
    "error",
    [TaskTerminalError("because"), TaskDefinitionError("text", code="PRG-T009")],
    ids=["with a reason", "with a code"],
)
def test_an_error_survives_the_way_between_two_processes(error: PeragoError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # written one line before
    assert (type(copy), str(copy), copy.code) == (type(error), str(error), error.code)


def test_a_stored_result_error_says_what_differs_and_the_way_out() -> None:
    error = StoredResultError("count")
    assert error.fault.startswith("the stored result differs from today's result model in: count;")
    assert "perago reset-task" in str(error)


@pytest.mark.parametrize(
    ("error", "code", "parts"),
    [
        (
            SparkEnvironmentError(expected="Java 17", found="none", remedy="install one"),
            "PRG-K001",
            ("expected Java 17, found none", "install one"),
        ),
        (SparkSessionError("spark://a:1", "refused"), "PRG-K002", ("spark://a:1", "refused")),
        (OutsidePrefixError("lake", ["a", "b"]), "PRG-K003", ("prefix lake: a, b;",)),
        (OutsidePrefixError("lake", list("abcdef")), "PRG-K003", ("a, b, c, d, e, ...",)),
        (ReadOnlyWorkspaceError("daily"), "PRG-K004", ("read-only", "daily")),
        (OpenStreamError(["q1", "q2"]), "PRG-K005", ("q1, q2", "awaitTermination")),
        (SparkPathError("../x"), "PRG-K006", ("'../x'",)),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_error_says_what_was_found(
    error: PeragoError, code: str, parts: tuple[str, ...]
) -> None:
    assert error.code == code
    for part in parts:
        assert part in str(error)
