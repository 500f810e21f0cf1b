"""How an attempt ends: its status, reason and code, and no value of the input in any of them.

`result_for_exception` says how an attempt ends that raised. A reason of a validation has the path
of each field and what is wrong with it, and never the value that caused it. Validates nothing.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self, cast, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from perago.app.authoring.contract_schema import declared_names
from perago.domain import errors
from perago.domain.text import NO_SECRETS, Secrets
from perago.ports.errors import ServiceError

logger = logging.getLogger(__name__)

Status = Literal["COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR"]
_TERMINAL = (errors.PreGuardrailViolation, errors.TaskTerminalError)
_CODE_OF_PART = {"workspace": "PRG-I002", "params": "PRG-I003", "result": "PRG-R001"}
_HIDDEN = "<value>"
_HIDDEN_KEY = "<key>"
# A short value, such as `1` or `id`, is hidden only where it stands alone. Hidden inside words as
# well, it would make the sentence unreadable.
_WHOLE_WORD_BELOW_CHARACTERS = 4
# Each is one search through the message. A message about more of them is hidden whole, because a
# value in it could be one that was not looked for.
_LEAVES_MAX = 10_000
# Texts written by validators of the author, or that quote the input; all others are pydantic's
# own sentences about types and limits.
_MAY_QUOTE_INPUT = frozenset({"value_error", "assertion_error", "union_tag_invalid"})
_FIXED_SENTENCES = frozenset(get_args(ErrorType)) - _MAY_QUOTE_INPUT


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


def result_for_exception(
    exc: BaseException,
    *,
    max_length: int,
    secrets: Secrets = NO_SECRETS,
    task: tuple[str, str] | None = None,
) -> RuntimeTaskResult:
    """Say how an attempt ends that raised `exc`; `task` completes the command in its reason."""
    # Masked before it is cut: the half of a secret that a cut leaves is not found any more.
    reason = _cut(secrets.masked(failure_reason(exc, task)), max_length)
    status: Status = "FAILED_WITH_TERMINAL_ERROR" if error_is_terminal(exc) else "FAILED"
    return RuntimeTaskResult(status=status, reason_for_incompletion=reason)


def error_is_terminal(exc: BaseException) -> bool:
    """Whether no retry can help."""
    return isinstance(exc, _TERMINAL) or (isinstance(exc, errors.PeragoError) and exc.terminal)


def failure_reason(exc: BaseException, task: tuple[str, str] | None = None) -> str:
    """One text with the exception's type and, where there is one, its code.

    A command in it is for the task, given as workflow id and reference name, where it is known.

    Our own errors begin with their text, since texts are what operators search for; a reason that
    an author chose stands alone; everything else begins with its type, as Python prints it.
    """
    name = type(exc).__name__
    if isinstance(exc, errors.TaskExecutionError):
        return exc.reason or name
    if isinstance(exc, errors.BodyFailedError):
        return str(exc)  # the executor has written the whole reason
    if isinstance(exc, errors.PeragoError | ServiceError):
        text = (
            exc.text_for(*task) if task and isinstance(exc, errors.ResetNeededError) else str(exc)
        )
        return f"{text} [{name} {exc.code}]".lstrip()
    if isinstance(exc, ValidationError):
        return f"{name}: {validation_reason(exc)} [{error_code(exc)}]"
    text = str(exc)
    return f"{name}: {text}" if text else name


def error_code(exc: BaseException) -> str:
    """The stable code of whatever ended an attempt."""
    if isinstance(exc, errors.PeragoError | ServiceError):
        return exc.code
    if isinstance(exc, ValidationError):
        code = validation_code(exc)
        if code is not None:
            return code
        location = exc.errors(include_url=False, include_input=False)[0]["loc"]
        return _CODE_OF_PART.get(str(location[0]) if location else "", "PRG-B004")
    return "PRG-B004"


def _cut(reason: str, max_length: int) -> str:
    if max_length <= 0:
        raise ValueError("max_length must be a positive integer")
    if len(reason) > max_length:
        facts = {"original_length": len(reason), "max_length": max_length}
        # Once as 0.6.1 says it, once under the name that the worker's log reads.
        logger.warning("truncated task failure reason", extra={**facts, "perago": facts})
    return reason[:max_length]


def without_input_values(
    error: ValidationError, *, part: str, data: object, model: type[BaseModel]
) -> ValidationError:
    """Return the same errors, below `place`, with no value of `data` in text or fields."""
    names = declared_names(model)
    return ValidationError.from_exception_data(
        error.title,
        [
            InitErrorDetails(
                type=_sentence(each), loc=(part, *_path(each, data, names)), input=None
            )
            for each in error.errors(include_url=False)
        ],
        hide_input=True,
    )


def validation_reason(error: ValidationError) -> str:
    """One line: each field path with what is wrong there; never a value."""
    return "; ".join(
        f"{_dotted(each['loc'])}{_message(each)}" for each in error.errors(include_url=False)
    )


def validation_code(error: ValidationError) -> str | None:
    """The code of the first error of ours inside, if there is one."""
    for each in error.errors(include_url=False):
        facts = each.get("ctx", {})
        code = getattr(facts.get("error"), "code", facts.get("code"))
        if isinstance(code, str):
            return code
    return None


def _sentence(each: ErrorDetails) -> PydanticCustomError:
    cause = each.get("ctx", {}).get("error")
    facts = {"message": _message(each)}
    if isinstance(cause, errors.PeragoError):
        facts["code"] = cause.code
    return PydanticCustomError(cast("Any", each["type"]), "{message}", facts)


def _message(each: ErrorDetails) -> str:
    message = each["msg"]
    cause = each.get("ctx", {}).get("error")
    # Neither pydantic's sentences nor those of our own validators quote a value.
    if each["type"] in _FIXED_SENTENCES or isinstance(cause, errors.PeragoError):
        return message
    tag = each.get("ctx", {}).get("tag")
    quoted = {str(tag)} if tag is not None else _leaves(each["input"])
    if quoted is None:
        return f"<hidden, because the input has more than {_LEAVES_MAX} values>"
    for value in sorted(quoted, key=len, reverse=True):
        pattern = re.escape(value)
        if len(value) < _WHOLE_WORD_BELOW_CHARACTERS:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        message = re.sub(pattern, _HIDDEN, message)
    return message


def _leaves(value: object) -> set[str] | None:
    """Texts of the scalars inside a value; None where it has more than `_LEAVES_MAX` parts.

    None, True and False are no secrets, and pydantic's own sentences use these words.
    """
    found: set[str] = set()
    pending, count = [value], 0
    while pending:
        count += 1
        if count > _LEAVES_MAX:
            return None
        current = pending.pop()
        if isinstance(current, BaseModel):
            pending += vars(current).values()
        elif isinstance(current, Mapping):
            pair = cast("Mapping[object, object]", current)
            pending += [*pair.keys(), *pair.values()]
        elif isinstance(current, Sequence | set | frozenset) and not isinstance(current, str):
            pending += cast("Sequence[object]", current)
        elif current is not None and not isinstance(current, bool) and str(current):
            found.add(str(current))
    return found


def _path(each: ErrorDetails, data: object, names: frozenset[str]) -> Iterator[str | int]:
    """The location, with keys of free-form dictionaries hidden: they are data, not names."""
    last = len(each["loc"]) - 1
    current = data
    for position, step in enumerate(each["loc"]):
        below = _below(current, step)
        is_data = isinstance(step, str) and step not in names and below is not None
        is_unexpected = each["type"] == "extra_forbidden" and position == last
        yield _HIDDEN_KEY if is_data and not is_unexpected else step
        if below is not None:
            (current,) = below


def _below(current: object, step: str | int) -> tuple[object] | None:
    """What lies one step further: in a tuple, because the value itself may be None."""
    if isinstance(current, BaseModel):
        current = vars(current)
    if isinstance(current, Mapping):
        mapping = cast("Mapping[object, object]", current)
        return (mapping[step],) if step in mapping else None
    if isinstance(current, Sequence) and isinstance(step, int):
        sequence = cast("Sequence[object]", current)
        return (sequence[step],) if step < len(sequence) else None
    return None


def _dotted(location: tuple[str | int, ...]) -> str:
    return ".".join(str(step) for step in location) + ": " if location else ""
