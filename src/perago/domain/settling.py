"""What follows from lakeFS's answer to an effect: the tables of the specification, section 5.

Decides what may be concluded and whether the same request may be sent again; sends nothing.
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from perago.domain.commit_metadata import EXECUTION_ID
from perago.domain.outcome import (
    BrokenActions,
    DirtyTarget,
    HeadMoved,
    MergeAnswer,
    MergeConflict,
    Merged,
    MergeRefused,
    NoAnswer,
    NoChanges,
    NotPublished,
    Published,
    RefusedByHook,
    TooManyTries,
)
from perago.domain.references import CommitId, FirstParentWalk

LOOKS_MAX = 20
ROUNDS_MAX = 40
SETTLE_SECONDS_WITHOUT_BUDGET = 60.0


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Nothing happened: read the head again and decide anew."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The request left and no answer came: settle by looking."""

    reason: str


@dataclass(frozen=True, slots=True)
class SendAgain:
    """The same request may be sent again: at most one of the two can win."""


@dataclass(frozen=True, slots=True)
class KeepLooking:
    """Nothing may be sent; look again until the deadline."""

    reason: str


AfterMerge: TypeAlias = Published | LookAgain | NotPublished | Unanswered
AfterLook: TypeAlias = Published | SendAgain | NotPublished | KeepLooking


def after_merge(answer: MergeAnswer) -> AfterMerge:
    """Conclude from a merge's answer.

    200                    Published (after the parents check)
    412 with our text      look again
    412 without            refused for ever: another hook
    hook aborted, not 412  refused for ever: broken file under `_lakefs_actions/`
    409, 423, 429          look again
    400 no changes         refused for ever, never success
    400 dirty branch       refused, the decision stays
    another 4xx            refused
    anything else          unanswered
    """
    match answer:
        case Merged(commit):
            return Published(commit)
        case HeadMoved(text) | MergeConflict(text) | TooManyTries(text):
            return LookAgain(text)
        case RefusedByHook(text):
            return NotPublished("PRG-F010", f"a pre-merge hook refused the publication: {text}")
        case BrokenActions(text):
            reason = f"a file under _lakefs_actions/ is broken: {text}"
            return NotPublished("PRG-F011", reason, is_of_the_commit=True)
        case NoChanges(text):
            reason = f"the staged commit was merged before: {text}"
            return NotPublished("PRG-F012", reason, is_of_the_commit=True)
        case DirtyTarget(text):
            return NotPublished("PRG-F013", f"the target has uncommitted objects: {text}")
        case MergeRefused(text):
            return NotPublished("PRG-L003", f"lakeFS refused the merge: {text}")
        case NoAnswer(text):
            return Unanswered(text)
        case _:
            assert_never(answer)


def look_after_merge(
    walk: FirstParentWalk, *, expected_head: CommitId, execution_id: str, fenced: bool
) -> AfterLook:
    """Settle an unanswered merge by what the head looks like now.

    head read                       with fence      without
    my execution on it or above A   Published       Published
    still the expected head         send again      keep looking
    something else                  NotPublished    keep looking

    Of several commits with my execution the oldest is mine, the others are copies of it. A walk
    that was cut proves nothing about what is below.
    """
    for record in reversed(walk.above):
        if record.metadata.get(EXECUTION_ID) == execution_id:
            return Published(record.commit)
    head = walk.head.commit
    if head == expected_head:
        return SendAgain() if fenced else KeepLooking(f"the head is still {head}")
    if fenced and not walk.truncated:
        return NotPublished("PRG-F002", f"the head moved from {expected_head} to {head}")
    return KeepLooking(f"the head is {head}, expected {expected_head}")


def look_after_relocation(head: CommitId, *, old_head: CommitId, target: CommitId) -> AfterLook:
    """Settle an unanswered relocation; it carries no precondition, so it is never sent again.

    the target: Published; the old head or something else: keep looking until the deadline.
    """
    if head == target:
        return Published(target)
    if head == old_head:
        return KeepLooking(f"the head is still {head}")
    return KeepLooking(f"the head is {head}, neither {old_head} nor {target}")
