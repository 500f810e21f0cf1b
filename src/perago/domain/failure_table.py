"""What a failed step means for the attempt: the failure table of the lifecycle.

Decides by the step and by the kind of the error, never by its text; raising and reporting are
not known here.
"""

from collections.abc import Mapping
from enum import StrEnum

from perago.domain.attempt import AttemptStatus


class Step(StrEnum):
    """The steps of one attempt, in order; a Spark attempt visits some of them twice."""

    ENVELOPE = "envelope"
    PARAMS = "params"
    DIRECTORY = "directory"
    POLICY = "policy"
    RESUME = "resume"
    DOWNLOAD = "download"
    PRE_GUARDRAILS = "pre guardrails"
    BODY = "body"
    RESULT = "result"
    POST_GUARDRAILS = "post guardrails"
    DIFF = "diff"
    FENCE_BEFORE_STAGING = "attempt fence before staging"
    STAGE = "stage"
    DECIDE = "decide"
    READ_HEAD = "read head"
    FENCE_BEFORE_EFFECT = "attempt fence before the effect"
    EFFECT = "effect"
    SETTLE = "settle"
    COMPLETE = "complete"
    READ_BACK = "read back"
    CLEAN_STAGING = "clean staging"
    CLEAN_LOCAL = "clean local"


class Failure(StrEnum):
    """What a step may do to the attempt when it fails."""

    RETRY = "FAILED"
    RETRY_UNLESS_TERMINAL = "FAILED, unless the error is terminal"
    TERMINAL = "FAILED_WITH_TERMINAL_ERROR"
    KEEP_RESULT = "the result is kept, the failure is logged"


FAILURES: Mapping[Step, Failure] = {
    # Retrying cannot help a wrong input, but documents 001 and 002 say FAILED.
    Step.ENVELOPE: Failure.RETRY,
    # The code of authors runs in these: models, bodies, result models.
    Step.PARAMS: Failure.RETRY_UNLESS_TERMINAL,
    Step.BODY: Failure.RETRY_UNLESS_TERMINAL,
    Step.RESULT: Failure.RETRY_UNLESS_TERMINAL,
    # A chain that decided on another input, and a result too large to store, stay what they are.
    Step.RESUME: Failure.RETRY_UNLESS_TERMINAL,
    Step.STAGE: Failure.RETRY_UNLESS_TERMINAL,
    # The input commit is immutable, so its violation is as well.
    Step.PRE_GUARDRAILS: Failure.TERMINAL,
    Step.DIRECTORY: Failure.RETRY,
    Step.POLICY: Failure.RETRY,
    Step.DOWNLOAD: Failure.RETRY,
    Step.POST_GUARDRAILS: Failure.RETRY,
    Step.DIFF: Failure.RETRY,
    # Whatever is wrong with the head or the attempt now, a later attempt may finish the work.
    Step.FENCE_BEFORE_STAGING: Failure.RETRY,
    Step.DECIDE: Failure.RETRY,
    Step.READ_HEAD: Failure.RETRY,
    Step.FENCE_BEFORE_EFFECT: Failure.RETRY,
    Step.EFFECT: Failure.RETRY,
    Step.SETTLE: Failure.RETRY,
    # The attempt has its result; nothing that follows takes it back.
    Step.COMPLETE: Failure.KEEP_RESULT,
    Step.READ_BACK: Failure.KEEP_RESULT,
    Step.CLEAN_STAGING: Failure.KEEP_RESULT,
    Step.CLEAN_LOCAL: Failure.KEEP_RESULT,
}


def keeps_result(step: Step) -> bool:
    """Whether a failure of this step is only logged."""
    return FAILURES[step] is Failure.KEEP_RESULT


def status_after(step: Step, *, terminal: bool) -> AttemptStatus:
    """Name the status to report after a failed step.

    `terminal` says that the error itself is one that no retry can help. A step that keeps the
    result has no such status: asking for it is a defect of the caller.
    """
    match FAILURES[step]:
        case Failure.RETRY:
            return AttemptStatus.FAILED
        case Failure.TERMINAL:
            return AttemptStatus.FAILED_WITH_TERMINAL_ERROR
        case Failure.RETRY_UNLESS_TERMINAL:
            if terminal:
                return AttemptStatus.FAILED_WITH_TERMINAL_ERROR
            return AttemptStatus.FAILED
        case Failure.KEEP_RESULT:
            text = f"a failed step {step.value!r} keeps the result; there is no status to report"
            raise AssertionError(text)
