"""The public errors keep the families that callers of 0.6.1 catch, and carry a code."""

import pickle
from typing import cast

import pytest

from perago.domain import errors
from perago.domain.errors import (
    GuardrailViolation,
    PeragoError,
    PostGuardrailViolation,
    PreGuardrailViolation,
    RuntimeConfigError,
    StoredResultError,
    TaskDefinitionError,
    TaskExecutionError,
    TaskFailed,
    TaskInputError,
    TaskTerminalError,
)


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
    assert error.differing == "count"
    assert "perago reset-task" in str(error)
