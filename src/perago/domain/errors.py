"""What Perago concluded: errors that end an attempt, each with a stable code and its facts.

What the world did is `perago.ports.errors`; what authors do wrong is `authoring_errors`.
"""

import shlex

from perago.domain.attempt_fence import Stale


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


class FenceNotTrustedError(PeragoError, RuntimeError):
    """The publication fence is missing, altered or not run by the server."""

    code = "PRG-F020"


OUTCOME_UNKNOWN = "publication outcome unknown"
"""How such a reason begins in Conductor: garbage collection reads it there, in another process."""


class OutcomeUnknownAtDeadlineError(PeragoError, RuntimeError):
    """An effect was sent and could not be settled in time; staging is left for GC."""

    code = "PRG-U001"

    def __init__(self, reason: str) -> None:
        super().__init__(f"{OUTCOME_UNKNOWN}: {reason}")


class PublicationRefusedError(PeragoError, RuntimeError):
    """lakeFS refused the publication for good; nothing was changed."""

    code = "PRG-L003"


class DecidedOnOtherInputError(PublishFenceError):
    """An earlier attempt of this execution decided on another input; neither may win now."""

    code = "PRG-F008"
    terminal = True


class CompletionRefusedError(PeragoError, RuntimeError):
    """Conductor has understood the success of an attempt and does not take it."""

    code = "PRG-R004"

    def __init__(self, refusal: str) -> None:
        super().__init__(f"Conductor did not take the output: {refusal}")


class InputPlaceError(PeragoError, ValueError):
    """The workspace input names something that is not a commit."""

    code = "PRG-I006"


class BodyFailedError(PeragoError, RuntimeError):
    """The body ended without a result; the text is the whole reason for Conductor."""

    code = "PRG-B004"

    def __init__(self, reason: str, *, terminal: bool = False) -> None:
        super().__init__(reason)
        self.terminal = terminal


class ResultTooLargeError(PeragoError, ValueError):
    """The result does not fit into commit metadata; it belongs into the workspace."""

    code = "PRG-I010"
    terminal = True

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the result has {size_bytes} bytes as JSON, expected at most {limit_bytes}; "
            "write the data into the workspace and return its path"
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class ResultNotStorableError(PeragoError, ValueError):
    """The result is not JSON: NaN, an infinity, or a value without a JSON form."""

    code = "PRG-I011"

    def __init__(self, found: str) -> None:
        super().__init__(f"the result must be JSON without NaN and infinities: {found}")
        self.found = found


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
        self.found = found


class ReservedPathError(PeragoError, RuntimeError):
    """A body wrote where only lakeFS and Perago write."""

    code = "PRG-W001"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is reserved; a task must not write below _lakefs_actions/")
        self.path = path
