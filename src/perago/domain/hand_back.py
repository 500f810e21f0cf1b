"""Which end an attempt gets, and what a row says of the times it was handed back.

To hand a row back is to put it in the queue again: same task id, same retry count, no retry spent
and no FAILED that a JOIN could take for final. `ending_for` is the table that decides it. The row
carries `HandBacks` in its output until an end replaces that, so that whichever worker polls it next
knows how often it came back. Sends nothing and knows no clock.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import cast

from perago.domain.attempt import AttemptRecord, ExecutionId, as_mapping


class Cause(StrEnum):
    """What ended an attempt that did not complete."""

    STALE = "stale"
    REFUSED_FOR_GOOD = "refused for good"
    FAILED = "failed"
    DRAIN = "drain"
    SERVICE_AWAY = "service away"
    DISK_FULL = "disk full"
    WORKER_DIED = "worker died"
    EXECUTOR_LOST = "executor lost before it began"


class Moment(StrEnum):
    """Where in an attempt that was, seen from the task function."""

    BEFORE_FUNCTION = "before the task function"
    IN_FUNCTION = "in the task function"
    AFTER_FUNCTION = "after the task function"


class Ending(StrEnum):
    """What Conductor is sent."""

    NOTHING = "nothing"
    FAIL_FOR_GOOD = "fail for good"
    FAIL = "fail"
    HAND_BACK = "hand back"
    GIVE_UP = "fail with all reasons"


_BEFORE, _IN, _AFTER = Moment.BEFORE_FUNCTION, Moment.IN_FUNCTION, Moment.AFTER_FUNCTION
_BACK, _FAIL = Ending.HAND_BACK, Ending.FAIL

# Rows: cause. Columns: before, in, after the task function.
#
# Service away, after: an attempt waits for the service as long as the row can be its own. When it
# gives up the row is lost as a rule, and garbage collection reads the reason of a publication whose
# outcome is unknown from the FAILED row.
# Disk full, in and after: the task function may have filled the disk, and would do it again.
ENDINGS: Mapping[Cause, Mapping[Moment, Ending]] = MappingProxyType(
    {
        # An update names the task id alone: sent for a stale attempt, it would end the row of a
        # rerun, or put the row of a redelivery back while that one runs.
        Cause.STALE: dict.fromkeys(Moment, Ending.NOTHING),
        Cause.REFUSED_FOR_GOOD: dict.fromkeys(Moment, Ending.FAIL_FOR_GOOD),
        Cause.FAILED: dict.fromkeys(Moment, _FAIL),
        Cause.DRAIN: {_BEFORE: _BACK, _IN: _BACK, _AFTER: _BACK},
        Cause.SERVICE_AWAY: {_BEFORE: _BACK, _IN: _FAIL, _AFTER: _FAIL},
        Cause.DISK_FULL: {_BEFORE: _BACK, _IN: _FAIL, _AFTER: _FAIL},
        # The next worker on the host sends it. The task function may have been the cause, for
        # example by using all memory; then the row comes back five times and no more.
        Cause.WORKER_DIED: dict.fromkeys(Moment, _BACK),
        # Nothing of the task had run in it. After the task function it was to run the checks.
        Cause.EXECUTOR_LOST: dict.fromkeys(Moment, _BACK),
    }
)

# What passes without the task, and leaves its outcome as good as it was. Neither a full disk, which
# the directory may fill, nor a refusal: the function has to run again, or never.
LEAVES_THE_OUTCOME = frozenset({Cause.STALE, Cause.DRAIN, Cause.SERVICE_AWAY, Cause.EXECUTOR_LOST})

# The documents say FAILED where a service does not answer or the disk refuses (compatibility of
# 0.6.1). Of a drain they say nothing: 0.6.1 left such a row to its response time-out. So is the row
# of a dead worker, whose merge may still be on its way: their guarantee needs it to be over.
FAIL_UNDER_DOCUMENTS_POLICIES = frozenset({Cause.SERVICE_AWAY, Cause.DISK_FULL, Cause.WORKER_DIED})
# A row that five executions in a row gave back is given back by a sixth as well: its deploys come
# faster than it ends, or what it needs is gone. FAILED says so to a person, and the count begins
# anew because the retry is another row.
HAND_BACKS_MAX = 5


@dataclass(frozen=True, slots=True)
class RowLimits:
    """The limits of a task that its row keeps counting from before a hand back; 0 means none.

    Conductor counts the poll time-out from the scheduled time and the execution time-out from the
    first poll. So a row with a poll time-out would time out as soon as it is back in the queue, and
    one with an execution time-out would give its redelivery only the rest of it.
    """

    poll_seconds: int = 0
    execution_seconds: int = 0

    def forbid(self, moment: Moment) -> bool:
        """Whether a retry, which is a row of its own, is better than a redelivery."""
        began = moment is not Moment.BEFORE_FUNCTION
        return self.poll_seconds > 0 or (self.execution_seconds > 0 and began)


NO_LIMITS = RowLimits()


def ending_for(
    cause: Cause,
    moment: Moment,
    *,
    documents_policy: bool = False,
    limits: RowLimits = NO_LIMITS,
    hand_backs: int = 0,
) -> Ending:
    """Say what Conductor is sent for an attempt whose row came back so often before."""
    ending = ENDINGS[cause][moment]
    if ending is not Ending.HAND_BACK:
        return ending
    if limits.forbid(moment):
        return Ending.FAIL
    if documents_policy and cause in FAIL_UNDER_DOCUMENTS_POLICIES:
        return Ending.FAIL
    return Ending.GIVE_UP if hand_backs >= HAND_BACKS_MAX else ending


# An outage, a full disk or a machine that starts no process is still there in the next second: the
# row waits longer each time, so that five hand-backs cover 5 minutes beside what each attempt has
# waited itself. A drain and a death say nothing about the next worker, so the row goes on at once.
FIRST_PAUSE_SECONDS = 10
NO_PAUSE = frozenset({Cause.DRAIN, Cause.WORKER_DIED})


def pause_seconds(cause: Cause, hand_backs: int) -> int:
    """How long a row that is handed back stays out of reach of the next poll."""
    return 0 if cause in NO_PAUSE else FIRST_PAUSE_SECONDS * 2**hand_backs


# A name that no result has: an output of ours has `workspace` and `result`, and nothing else.
HANDED_BACK = "perago_handed_back"
# Conductor keeps every reason in the row, five times at most; a stack trace says no more here. The
# FAILED at the end has 500 characters for all of them (PERAGO_FAILURE_REASON_MAX_LENGTH).
STORED_REASON_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class HandBacks:
    """The executions that handed one row back, oldest first, each with its reason."""

    scheduled_time: int
    executions: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How often it came back."""
        return len(self.reasons)

    def and_then(self, execution_id: ExecutionId, reason: str) -> "HandBacks":
        """The same and one more."""
        reason = reason[:STORED_REASON_CHARACTERS_MAX]
        return HandBacks(
            self.scheduled_time, (*self.executions, execution_id), (*self.reasons, reason)
        )

    def as_output(self) -> dict[str, object]:
        """How the row carries it."""
        entries = [
            {"execution": execution, "reason": reason}
            for execution, reason in zip(self.executions, self.reasons, strict=True)
        ]
        return {HANDED_BACK: {"scheduledTime": self.scheduled_time, "by": entries}}


def hand_backs_of(record: AttemptRecord) -> HandBacks:
    """Read what a row carries.

    A rerun keeps the row with its output and gives it another scheduled time: what came back before
    it does not count. Neither does what is not of our form, since every worker may write an output.
    """
    none = HandBacks(record.snapshot.scheduled_time)
    found = as_mapping(record.output_data.get(HANDED_BACK))
    entries = found.get("by")
    if found.get("scheduledTime") != none.scheduled_time or not isinstance(entries, list):
        return none
    for entry in filter(None, map(as_mapping, cast("list[object]", entries))):
        execution = ExecutionId(str(entry.get("execution", "")))
        none = none.and_then(execution, str(entry.get("reason", "")))
    return none


def all_reasons(reasons: Sequence[str], *, characters_max: int) -> str:
    """One text with every reason, the newest first, each cut so that all of them have room.

    Equal reasons are one with their number: an outage gives the same one each time.
    """
    counts = Counter(reversed(reasons))
    room = max(characters_max // len(counts) - len("5 times: ; "), 1)
    return "; ".join(
        (f"{count} times: " if count > 1 else "") + reason[:room]
        for reason, count in counts.items()
    )
