"""What is sent for an attempt that raised: a failure, a row that goes back, or nothing.

`cause_of` puts an exception into the words of the domain's table; `end_of_failure` makes the update
that the table asks for. Sends nothing.
"""

from perago.app.attempt.context import Attempt
from perago.app.authoring.failure import error_is_terminal, result_for_exception
from perago.domain import errors
from perago.domain.attempt import AttemptStatus
from perago.domain.hand_back import (
    HAND_BACKS_MAX,
    LEAVES_THE_OUTCOME,
    Cause,
    Ending,
    RowLimits,
    ending_for,
    hand_backs_of,
    pause_seconds,
)
from perago.domain.policy import fails_as_documented
from perago.ports.conductor import AttemptEnd, HandBack, TerminalUpdate
from perago.ports.errors import LocalDiskError, OutcomeUnknownError, UnavailableError

HANDED_BACK = "HANDED_BACK"
"""The status in logs and metrics; in Conductor such a row is SCHEDULED."""


def cause_of(error: Exception) -> Cause:
    """What ended the attempt, as the table of endings calls it."""
    match error:
        case errors.StaleAttemptError():
            return Cause.FAILED if isinstance(error, errors.MadeGoodError) else Cause.STALE
        case _ if error_is_terminal(error):
            return Cause.REFUSED_FOR_GOOD
        case errors.BodyFailedError() | errors.OutcomeUnknownAtDeadlineError():
            return error.cause
        case UnavailableError() | OutcomeUnknownError():
            return error.cause
        case LocalDiskError() if error.is_full:
            return Cause.DISK_FULL
        case _:
            return Cause.FAILED


def end_of_failure(attempt: Attempt, error: Exception) -> tuple[AttemptEnd | None, Exception]:
    """What ends the attempt, and the error to tell of; no end for a stale one, which ends nothing.

    An update names the task id alone. What it would end is the row of a rerun or a redelivery,
    or a row that a late heartbeat brought back beside its own retry. Of a row that came back too
    often all reasons are told.
    """
    cause, failed = cause_of(error), failed_update(attempt, error)
    match ending_of(attempt, cause):
        case Ending.NOTHING:
            return None, error
        case Ending.HAND_BACK:
            return hand_back(attempt, cause, failed.reason or ""), error
        case Ending.GIVE_UP:
            too_often = _too_often(attempt, failed.reason or "")
            too_often.__cause__ = error  # for the traceback in the log
            return failed_update(attempt, too_often), too_often
        case _:
            return failed, error


def hand_back(attempt: Attempt, cause: Cause, why: str) -> HandBack:
    """The row goes back to its queue; its output says how often it did, and why."""
    earlier = hand_backs_of(attempt.record)
    remembered = earlier.and_then(attempt.execution_id, why)
    return HandBack(
        attempt=attempt.row,
        worker_id=attempt.settings.worker_id,
        reason=f"handed back ({len(remembered)} of {HAND_BACKS_MAX}): {why}",
        output=remembered.as_output(),
        after_seconds=pause_seconds(cause, len(earlier)),
    )


def end_of_lost(attempt: Attempt, why: str, *, may_publish: bool) -> AttemptEnd | None:
    """What ends a row without a worker; None where its response time-out has to end it."""
    match ending_of(attempt, Cause.WORKER_DIED, may_publish=may_publish):
        case Ending.HAND_BACK:
            return hand_back(attempt, Cause.WORKER_DIED, why)
        case Ending.GIVE_UP:
            return failed_update(attempt, _too_often(attempt, why))
        case _:
            return None


def _too_often(attempt: Attempt, why: str) -> errors.HandedBackTooOftenError:
    reasons = (*hand_backs_of(attempt.record).reasons, why)
    characters_max = attempt.settings.failure_reason_max_length
    return errors.HandedBackTooOftenError(reasons, characters_max=characters_max)


def ending_of(attempt: Attempt, cause: Cause, *, may_publish: bool = True) -> Ending:
    """What the table of endings says of this attempt.

    Where no request of it can still publish, the documents' policies hand a row back as others do.
    So do tasks without a workspace, which publish nothing.
    """
    limits, may_publish = attempt.task.controls.timeout, may_publish and attempt.task.has_workspace
    return ending_for(
        cause,
        attempt.leftovers.moment,
        documents_policy=may_publish and fails_as_documented(attempt.publication),
        limits=RowLimits(limits.poll_seconds, limits.seconds),
        hand_backs=len(hand_backs_of(attempt.record)),
    )


def leaves_outcome(attempt: Attempt, error: Exception) -> bool:
    """Whether a later attempt on this host should go on where the task function ended.

    After the decision it finishes that one, and needs no directory.
    """
    leftovers = attempt.leftovers
    passes = cause_of(error) in LEAVES_THE_OUTCOME
    return passes and leftovers.has_outcome and not leftovers.decided


def failed_update(attempt: Attempt, error: Exception) -> TerminalUpdate:
    """The failure as Conductor is told of it, with secrets masked and cut to the longest reason."""
    settings, row = attempt.settings, attempt.row
    result = result_for_exception(
        error,
        max_length=settings.failure_reason_max_length,
        secrets=settings.secrets,
        task=(row.workflow_id, row.reference_name),
    )
    return TerminalUpdate(
        attempt=row,
        worker_id=settings.worker_id,
        status=AttemptStatus(result.status),
        reason=result.reason_for_incompletion or "",
    )
