"""What Conductor is told about an attempt: status, output, or the reason it is incomplete.

Maps an exception to a status and a text. Sends nothing.
"""

import logging
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from perago.app.authoring.validation_reasons import validation_code, validation_reason
from perago.domain.authoring_errors import (
    PreGuardrailViolation,
    TaskExecutionError,
    TaskTerminalError,
)
from perago.domain.errors import BodyFailedError, PeragoError, ResetNeededError
from perago.domain.secret_text import NO_SECRETS, Secrets
from perago.ports.errors import WorldError

logger = logging.getLogger(__name__)

Status = Literal["COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR"]
_TERMINAL = (PreGuardrailViolation, TaskTerminalError)
_CODE_OF_PLACE = {"workspace": "PRG-I002", "params": "PRG-I003", "result": "PRG-R001"}


class RuntimeTaskResult(BaseModel):
    """How an attempt ended, before it is sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Status
    output: dict[str, Any] | None = None
    reason_for_incompletion: str | None = None

    @model_validator(mode="after")
    def _parts_match_status(self) -> Self:
        if self.status == "COMPLETED":
            if self.output is None:
                raise ValueError("COMPLETED task results require output")
            if self.reason_for_incompletion is not None:
                raise ValueError("COMPLETED task results must not include reason_for_incompletion")
            return self
        if self.reason_for_incompletion is None:
            raise ValueError(f"{self.status} task results require reason_for_incompletion")
        if self.output is not None:
            raise ValueError(f"{self.status} task results must not include output")
        return self

    def conductor_payload(self) -> dict[str, Any]:
        """Return the fields of Conductor's task update."""
        if self.status == "COMPLETED":
            return {"status": self.status, "output": self.output}
        return {"status": self.status, "reasonForIncompletion": self.reason_for_incompletion}


def completed_result(output: dict[str, Any]) -> RuntimeTaskResult:
    """The attempt succeeded with this output."""
    return RuntimeTaskResult(status="COMPLETED", output=output)


def failed_result(reason: object, *, max_length: int) -> RuntimeTaskResult:
    """The attempt failed; Conductor may retry it."""
    return RuntimeTaskResult(status="FAILED", reason_for_incompletion=_cut(reason, max_length))


def terminal_failed_result(reason: object, *, max_length: int) -> RuntimeTaskResult:
    """The attempt failed and no retry can help."""
    return RuntimeTaskResult(
        status="FAILED_WITH_TERMINAL_ERROR", reason_for_incompletion=_cut(reason, max_length)
    )


def result_for_exception(
    exc: BaseException,
    *,
    max_length: int,
    secrets: Secrets = NO_SECRETS,
    task: tuple[str, str] | None = None,
) -> RuntimeTaskResult:
    """Say how an attempt ends that raised `exc`; `task` completes the command in its reason."""
    # Masked before it is cut: the half of a secret that a cut leaves is not found any more.
    reason = secrets.masked(failure_reason(exc, task))
    if error_is_terminal(exc):
        return terminal_failed_result(reason, max_length=max_length)
    return failed_result(reason, max_length=max_length)


def error_is_terminal(exc: BaseException) -> bool:
    """Whether no retry can help."""
    return isinstance(exc, _TERMINAL) or (isinstance(exc, PeragoError) and exc.terminal)


def failure_reason(exc: BaseException, task: tuple[str, str] | None = None) -> str:
    """One text with the exception's type and, where there is one, its code.

    A command in it is for the task, given as workflow id and reference name, where it is known.

    Our own errors begin with their text, since texts are what operators search for; a reason that
    an author chose stands alone; everything else begins with its type, as Python prints it.
    """
    name = type(exc).__name__
    if isinstance(exc, TaskExecutionError):
        return exc.reason or name
    if isinstance(exc, BodyFailedError):
        return str(exc)  # the process that ran the body has said it all
    if isinstance(exc, PeragoError | WorldError):
        text = exc.text_for(*task) if task and isinstance(exc, ResetNeededError) else str(exc)
        return f"{text} [{name} {exc.code}]".lstrip()
    if isinstance(exc, ValidationError):
        return f"{name}: {validation_reason(exc)} [{error_code(exc)}]"
    text = str(exc)
    return f"{name}: {text}" if text else name


def error_code(exc: BaseException) -> str:
    """The stable code of whatever ended an attempt."""
    if isinstance(exc, PeragoError | WorldError):
        return exc.code
    if isinstance(exc, ValidationError):
        code = validation_code(exc)
        if code is not None:
            return code
        location = exc.errors(include_url=False, include_input=False)[0]["loc"]
        return _CODE_OF_PLACE.get(str(location[0]) if location else "", "PRG-B004")
    return "PRG-B004"


def _cut(reason: object, max_length: int) -> str:
    if max_length <= 0:
        raise ValueError("max_length must be a positive integer")
    text = str(reason)
    if len(text) > max_length:
        facts = {"original_length": len(text), "max_length": max_length}
        # Once as 0.6.1 says it, once under the name that the worker's log reads.
        logger.warning("truncated task failure reason", extra={**facts, "perago": facts})
    return text[:max_length]
