"""What Perago concluded: errors that end an attempt, each with a stable code and its facts.

What the world did is `perago.ports.errors`; what authors do wrong is `authoring_errors`.
"""

from perago.domain.attempt_fence import Stale


class PeragoError(Exception):
    """An error with a stable code; `perago explain CODE` prints the long form."""

    code = "PRG-X001"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


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


class OutcomeUnknownAtDeadlineError(PeragoError, RuntimeError):
    """An effect was sent and could not be settled in time; staging is left for GC."""

    code = "PRG-U001"

    def __init__(self, reason: str) -> None:
        super().__init__(f"publication outcome unknown: {reason}")


class PublicationRefusedError(PeragoError, RuntimeError):
    """lakeFS refused the publication for good; nothing was changed."""

    code = "PRG-L003"


class ResultTooLargeError(PeragoError, ValueError):
    """The result does not fit into commit metadata; it belongs into the workspace."""

    code = "PRG-I010"


class ReservedPathError(PeragoError, RuntimeError):
    """A body wrote where only lakeFS and Perago write."""

    code = "PRG-W001"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is reserved; a task must not write below _lakefs_actions/")
        self.path = path
