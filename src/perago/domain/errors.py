"""Errors that end an attempt or refuse what an author wrote, each with a stable code and its facts.

First what Perago concluded about an attempt, then mistakes in task declarations and settings, then
Spark. A refusal or an outage of a service is in `perago.ports.errors`.
"""

import shlex
from collections.abc import Sequence
from typing import Self, cast

from perago.domain.attempt import Stale
from perago.domain.hand_back import Cause, all_reasons


class PeragoError(Exception):
    """An error with a stable code; `perago explain CODE` prints the long form."""

    code = "PRG-X001"
    terminal = False
    """Whether no retry can help, so that Conductor must not try again."""

    def __init__(
        self, message: str, *, code: str | None = None, terminal: bool | None = None
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if terminal is not None:
            self.terminal = terminal


class PublishFenceError(PeragoError, RuntimeError):
    """The target branch is not where this publication may land; nothing was changed."""

    code = "PRG-F002"


class CheckpointRefusedError(PeragoError, ValueError):
    """What a task function wanted to keep cannot be a checkpoint; nothing was copied."""

    code = "PRG-B006"

    @classmethod
    def because(cls, refused: str) -> Self:
        """The refusal of a call that has no checkpoints at all."""
        return cls(f"no checkpoints here: {refused}", code="PRG-B005")


class ChangesRefusedError(PeragoError, RuntimeError):
    """Whoever runs this call cannot say what changed since the last publication."""

    code = "PRG-B007"

    @classmethod
    def because(cls, refused: str) -> Self:
        """The refusal with its reason."""
        return cls(f"what changed cannot be said: {refused}")


class StaleAttemptError(PeragoError, RuntimeError):
    """Conductor no longer counts this attempt; whatever it has done is discarded."""

    code = "PRG-F001"

    def __init__(self, task_id: str, *, stale: Stale | None = None) -> None:
        more = ""
        if stale is not None:
            more = f" is stale: {stale.field} expected {stale.expected}, found {stale.found}"
        super().__init__(f"{task_id}{more}")
        self.task_id = task_id
        self.stale = stale


class MadeGoodError(StaleAttemptError):
    """A retry made this attempt good long ago, and a rerun of a later task handed it out again.

    Conductor waits for its end and ignores its output. So it ends, and nothing else does.
    """

    code = "PRG-F001"  # to an operator it is stale like others; only its row ends otherwise


class FenceNotTrustedError(PeragoError, RuntimeError):
    """The publication fence is missing, altered or not run by the server."""

    code = "PRG-F020"


OUTCOME_UNKNOWN = "publication outcome unknown"
"""How such a reason begins in Conductor: garbage collection reads it there, in another process."""


class OutcomeUnknownAtDeadlineError(PeragoError, RuntimeError):
    """An effect was sent and could not be settled in time; staging is left for GC."""

    code = "PRG-U001"

    def __init__(self, reason: str, *, cause: Cause = Cause.FAILED) -> None:
        super().__init__(f"{OUTCOME_UNKNOWN}: {reason}")
        self.cause = cause


class PublicationRefusedError(PeragoError, RuntimeError):
    """lakeFS refused the publication for good; nothing was changed."""

    code = "PRG-L003"


class DecidedOnOtherInputError(PublishFenceError):
    """An earlier attempt of this execution decided on another input; neither may win now."""

    code = "PRG-F008"
    terminal = True


class RunRefusedError(PublicationRefusedError):
    """A run cannot be begun or published as it is; nothing was changed on the target."""

    code = "PRG-N001"
    terminal = True


class SeveralRunsError(PeragoError, ValueError):
    """A workflow was named to mean its run, and it has several."""

    code = "PRG-X003"


class CompletionRefusedError(PeragoError, RuntimeError):
    """Conductor has understood the success of an attempt and does not take it."""

    code = "PRG-R004"

    def __init__(self, refusal: str) -> None:
        super().__init__(f"Conductor did not take the output: {refusal}")


class InputNotCommitError(PeragoError, ValueError):
    """The workspace input names something that is not a commit."""

    code = "PRG-I006"


class ParamsRefusedError(PeragoError, ValueError):
    """The params of a built-in task are wrong, and every retry would be given the same."""

    code = "PRG-I003"
    terminal = True


class PrefixValueError(PeragoError, ValueError):
    """A value of params cannot stand in the prefix of the workspace; nothing was read."""

    code = "PRG-I013"
    terminal = True

    def __init__(self, field: str, problem: str) -> None:
        # Without the value: reasons never carry what came in, because it may be secret.
        super().__init__(f"params.{field} {problem}, so that it cannot be part of the prefix")


class BodyFailedError(PeragoError, RuntimeError):
    """The body ended without a result; the text is the whole reason for Conductor."""

    code = "PRG-B004"

    def __init__(self, reason: str, *, terminal: bool = False, cause: Cause = Cause.FAILED) -> None:
        super().__init__(reason)
        self.terminal = terminal
        self.cause = cause


class HandedBackTooOftenError(PeragoError, RuntimeError):
    """The row came back too often in a row; the text has every reason."""

    code = "PRG-U002"

    def __init__(self, reasons: Sequence[str], *, characters_max: int) -> None:
        begin = f"handed back {len(reasons) - 1} times in a row without an end: "
        room = characters_max - len(begin) - len(f" [{type(self).__name__} {self.code}]")
        super().__init__(begin + all_reasons(reasons, characters_max=room))


class ResultTooLargeError(PeragoError, ValueError):
    """The result does not fit into commit metadata; it belongs into the workspace."""

    code = "PRG-I010"
    terminal = True

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the result has {size_bytes} bytes as JSON, expected at most {limit_bytes}; "
            "write the data into the workspace and return its path"
        )


class ResultNotStorableError(PeragoError, ValueError):
    """The result is not JSON: NaN, an infinity, or a value without a JSON form."""

    code = "PRG-I011"

    def __init__(self, found: str) -> None:
        super().__init__(f"the result must be JSON without NaN and infinities: {found}")


class ResetNeededError(PeragoError):
    """Every retry meets the same stored result, until its decision is removed by a command."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        super().__init__(self.text_for("WORKFLOW", "REFERENCE"))

    def text_for(self, workflow_id: str, reference_name: str) -> str:
        """The message with the command of one task, as it can be pasted into a shell.

        Whoever raises the error reads a stored result and does not know whose it is.
        """
        command = shlex.join(("perago", "reset-task", workflow_id, reference_name))
        return (
            f"{self.fault}; once the workflow has ended, run `{command}`,"
            " and its retry computes again"
        )


class DamagedResultError(ResetNeededError, RuntimeError):
    """The metadata of a decision does not hold a whole result."""

    code = "PRG-I012"
    terminal = True

    def __init__(self, found: str) -> None:
        super().__init__(f"the stored result is damaged: {found}")


class ReservedPathError(PeragoError, RuntimeError):
    """A body wrote where only lakeFS and Perago write."""

    code = "PRG-W001"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is reserved; a task must not write below _lakefs_actions/")


class TaskDefinitionError(PeragoError, ValueError):
    """A task is declared in a way Perago does not accept."""

    code = "PRG-T001"


class RuntimeConfigError(PeragoError, ValueError):
    """A setting is missing or has an invalid value."""

    code = "PRG-C001"


class TaskInputError(PeragoError, ValueError):
    """What Conductor handed to a task is not the input the task declared."""

    code = "PRG-I001"


class StoredResultError(ResetNeededError, ValueError):
    """An earlier attempt stored a result that today's result model does not describe."""

    code = "PRG-R003"

    def __init__(self, differing: str) -> None:
        super().__init__(
            f"the stored result differs from today's result model in: {differing};"
            " deploy the code that decided, or reset the task"
        )


class TaskExecutionError(PeragoError, RuntimeError):
    """A task body ends its attempt on purpose, with a reason meant for Conductor."""

    code = "PRG-B003"

    def __init__(self, reason: str) -> None:
        if not isinstance(cast("object", reason), str):  # callers need not be type-checked
            message = "reason must be str"
            raise TypeError(message)
        super().__init__(reason)
        self.reason = reason


class TaskFailed(TaskExecutionError):  # noqa: N818  # the public name of 0.6.1
    """The attempt failed and a retry may help."""

    code = "PRG-B001"


class TaskTerminalError(TaskExecutionError):
    """The attempt failed and no retry can help."""

    code = "PRG-B002"


class GuardrailViolation(PeragoError, RuntimeError):  # noqa: N818  # the public name of 0.6.1
    """The workspace is not what the task's guardrails ask for."""

    code = "PRG-G001"


class PreGuardrailViolation(GuardrailViolation):
    """The workspace was wrong before the body ran: terminal, the input will not change."""

    code = "PRG-G001"


class PostGuardrailViolation(GuardrailViolation):
    """The workspace was wrong after the body ran: nothing of it is published."""

    code = "PRG-G002"


class CheckFailedError(GuardrailViolation):
    """A check of the author refused the staged commit: nothing of it is decided or published."""

    code = "PRG-G003"


PATHS_NAMED_MAX = 5  # paths are long, and Conductor gets 500 characters of the reason


class SparkEnvironmentError(PeragoError, RuntimeError):
    """The Spark installation cannot work as it is."""

    code = "PRG-K001"

    def __init__(self, *, expected: str, found: str, remedy: str) -> None:
        super().__init__(f"Spark: expected {expected}, found {found}; {remedy}")
        self.found = found
        self.remedy = remedy


class SparkSessionError(PeragoError, RuntimeError):
    """Spark did not give a session."""

    code = "PRG-K002"

    def __init__(self, master: str, reason: str) -> None:
        super().__init__(
            f"Spark master {master} gave no session: {reason}; check PERAGO_SPARK_MASTER"
        )


class OutsidePrefixError(PeragoError, RuntimeError):
    """A Spark body wrote where it must not."""

    code = "PRG-K003"

    def __init__(self, prefix: str, paths: Sequence[str]) -> None:
        names = ", ".join(paths[:PATHS_NAMED_MAX])
        more = ", ..." if len(paths) > PATHS_NAMED_MAX else ""
        super().__init__(
            f"the task function changed objects outside prefix {prefix}: {names}{more}; nothing "
            "was published; write to workspace.output(path)"
        )


class ReadOnlyWorkspaceError(PeragoError, RuntimeError):
    """A read-only Spark task has nowhere to write."""

    code = "PRG-K004"

    def __init__(self, path: str) -> None:
        super().__init__(f"the workspace is read-only, {path} cannot be written")


class OpenStreamError(PeragoError, RuntimeError):
    """A streaming query outlived its body."""

    code = "PRG-K005"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            f"the task function left streaming queries running: {', '.join(names)}; they were "
            "stopped, nothing was published; use trigger(availableNow=True) and awaitTermination()"
        )


class SparkPathError(PeragoError, ValueError):
    """A path of a Spark workspace leads out of it."""

    code = "PRG-K006"

    def __init__(self, path: str) -> None:
        super().__init__(f"expected a path relative to the prefix, found {path!r}")
