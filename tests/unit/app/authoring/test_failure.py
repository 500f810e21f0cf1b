"""How an attempt ends: statuses, texts, lengths, and the rules of the result record."""

import logging

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from perago.app.authoring.failure import (
    RuntimeTaskResult,
    error_code,
    failure_reason,
    result_for_exception,
)
from perago.app.authoring.task_definition import RetryPolicy
from perago.domain.errors import (
    OutcomeUnknownAtDeadlineError,
    PostGuardrailViolation,
    PreGuardrailViolation,
    PublishFenceError,
    TaskFailed,
    TaskInputError,
    TaskTerminalError,
)

FAILED, TERMINAL = "FAILED", "FAILED_WITH_TERMINAL_ERROR"


@pytest.mark.parametrize(
    ("error", "status", "reason", "code"),
    [
        (TaskFailed("because"), FAILED, "because", "PRG-B001"),
        (TaskTerminalError("because"), TERMINAL, "because", "PRG-B002"),
        (TaskTerminalError(""), TERMINAL, "TaskTerminalError", "PRG-B002"),
        (
            PreGuardrailViolation("text"),
            TERMINAL,
            "text [PreGuardrailViolation PRG-G001]",
            "PRG-G001",
        ),
        (
            PostGuardrailViolation("text"),
            FAILED,
            "text [PostGuardrailViolation PRG-G002]",
            "PRG-G002",
        ),
        (TaskInputError("text"), FAILED, "text [TaskInputError PRG-I001]", "PRG-I001"),
        (PublishFenceError("text"), FAILED, "text [PublishFenceError PRG-F002]", "PRG-F002"),
        (
            OutcomeUnknownAtDeadlineError("no answer"),
            FAILED,
            "publication outcome unknown: no answer [OutcomeUnknownAtDeadlineError PRG-U001]",
            "PRG-U001",
        ),
        (ValueError("text"), FAILED, "ValueError: text", "PRG-B004"),
        (ValueError(), FAILED, "ValueError", "PRG-B004"),
        (KeyError("x"), FAILED, "KeyError: 'x'", "PRG-B004"),
    ],
    ids=repr,
)
def test_an_exception_has_one_status_reason_and_code(
    error: Exception, status: str, reason: str, code: str
) -> None:
    result = result_for_exception(error, max_length=500)
    assert (result.status, result.reason_for_incompletion) == (status, reason)
    assert error_code(error) == code


def test_a_validation_error_of_a_body_shows_no_value_either() -> None:
    with pytest.raises(ValidationError) as caught:
        RetryPolicy.model_validate({"count": "hunter2"})
    assert failure_reason(caught.value) == (
        "ValidationError: count: Input should be a valid integer, unable to parse string as an"
        " integer [PRG-B004]"
    )


class _Names(BaseModel):
    names: list[str]

    @field_validator("names")
    @classmethod
    def _refuse_the_first(cls, names: list[str]) -> list[str]:
        raise ValueError(f"{names[0]} is not allowed")


def test_a_sentence_about_more_values_than_are_looked_for_is_hidden_whole() -> None:
    with pytest.raises(ValidationError) as caught:
        _Names(names=["hunter2", *map(str, range(10_001))])
    assert failure_reason(caught.value) == (
        "ValidationError: names: <hidden, because the input has more than 10000 values> [PRG-B004]"
    )


def test_a_long_reason_is_cut_hard_and_that_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        result = result_for_exception(TaskFailed("123456"), max_length=5)
    assert result.reason_for_incompletion == "12345"
    (record,) = caplog.records
    assert record.getMessage() == "truncated task failure reason"
    assert (vars(record)["original_length"], vars(record)["max_length"]) == (6, 5)
    assert "123456" not in str(vars(record))


def test_a_reason_of_just_the_length_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    result = result_for_exception(TaskTerminalError("12345"), max_length=5)
    assert result.reason_for_incompletion == "12345"
    assert not caplog.records


def test_a_length_is_positive() -> None:
    with pytest.raises(ValueError, match="max_length must be a positive integer"):
        result_for_exception(TaskFailed("x"), max_length=0)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"status": "COMPLETED"}, "COMPLETED task results require output"),
        (
            {"status": "COMPLETED", "output": {}, "reason_for_incompletion": "x"},
            "COMPLETED task results must not include reason_for_incompletion",
        ),
        ({"status": FAILED}, "FAILED task results require reason_for_incompletion"),
        ({"status": TERMINAL}, f"{TERMINAL} task results require reason_for_incompletion"),
        (
            {"status": FAILED, "output": {}, "reason_for_incompletion": "x"},
            "FAILED task results must not include output",
        ),
        ({"status": "OTHER"}, "Input should be 'COMPLETED', 'FAILED'"),
        ({"status": "COMPLETED", "output": {}, "other": 1}, "Extra inputs are not permitted"),
    ],
    ids=str,
)
def test_the_parts_of_a_result_match_its_status(values: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RuntimeTaskResult.model_validate(values)
    assert text in str(caught.value)


def test_the_payload_has_what_conductor_expects() -> None:
    completed = RuntimeTaskResult(status="COMPLETED", output={"a": 1})
    assert completed.conductor_payload() == {"status": "COMPLETED", "output": {"a": 1}}
    failed = RuntimeTaskResult(status="FAILED", reason_for_incompletion="")
    assert failed.conductor_payload() == {"status": FAILED, "reasonForIncompletion": ""}
