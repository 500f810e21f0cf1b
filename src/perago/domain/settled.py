"""Policy `settled`: one decision for each logical execution, merged only on the head it names.

The decision (which staged commit) was made before, by creating a tag; `decide` says what may be
done with it now. `after_merge` and the `look_*` functions conclude from an answer, or from the lack
of one. Safe only with the fence installed, which is checked before the task function runs.
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from perago.domain import commit_metadata as metadata
from perago.domain import outcome
from perago.domain.lakefs import CommitId, CommitRecord, FirstParentWalk
from perago.domain.outcome import NotPublished, Published
from perago.domain.publication import (
    Adopt,
    Decision,
    Isolation,
    Promises,
    PublicationFacts,
    Refusal,
)
from perago.domain.run import start_anew

_STALE = "yes, within one logical execution; not after a rerun, a restart or a human's hard reset"
PROMISES = (
    Promises(
        never_lost="yes",
        never_overwritten="yes",
        never_stale=_STALE,
        at_most_once="yes",
        on_protected_branches="yes",
        runs_again="not after the decision; on the same host, not after it has ended",
    ),
)

# Under prefix isolation others publish on the branch meanwhile, so it is longer than that of
# `lineage`. Ten pages; a longer history is PRG-F004. 1,500 commits took 18 ms on lakeFS 1.86.
FIRST_PARENT_COMMITS_MAX = 10_000


def decide(facts: PublicationFacts) -> Decision:
    """Choose the one operation that may follow the decision.

    head:                    the input     our publication above it   moved outside   else
    changed                  MergeStaged   Adopt                      on the head     Refusal
    unchanged                Keep          Refusal                    Keep            Refusal

    "Our publication" stands directly above the input, or anywhere above it under prefix isolation;
    "moved outside the prefix" counts only under prefix isolation.
    """
    if facts.at_input:
        return facts.on_head()
    if facts.staged is not None:
        found = find_publication(facts)
        if found is not None:
            return Adopt(found)
    if facts.isolation is Isolation.PREFIX and facts.walk.reached and facts.untouched:
        return facts.on_head()
    return _refuse(facts)


def find_publication(facts: PublicationFacts) -> CommitRecord | None:
    """Find the commit that already published this execution.

    Key, branch and parents must agree: a cherry-pick copies metadata but stands elsewhere.
    Without a key nothing is ours: two absent keys are not equal.
    """
    if facts.execution_key is None or not facts.walk.reached:
        return None
    above = facts.walk.above
    candidates = above if facts.isolation is Isolation.PREFIX else above[-1:]
    for record in candidates:
        mine = record.metadata.get(metadata.LOGICAL_EXECUTION_KEY) == facts.execution_key
        here = record.metadata.get(metadata.TARGET_BRANCH) == facts.workspace.branch
        if mine and here and record.parents == (record.metadata.get(metadata.EXPECTED_HEAD),):
            return record
    return None


def _refuse(facts: PublicationFacts) -> Refusal:
    branch = facts.workspace.branch
    code, owner = "PRG-F002", facts.walk.head.metadata.get(metadata.LOGICAL_TASK_KEY)
    if facts.child_of_input and owner == facts.logical_task_key:
        more = _who_of_us(facts)
    elif facts.walk.truncated:
        code, more = "PRG-F004", f"{branch} advanced beyond supported publish range"
    elif not facts.walk.reached:
        text = f"{branch} no longer contains workspace input ref {facts.workspace.ref}"
        code, more = "PRG-F005", text
    elif facts.isolation is Isolation.PREFIX:
        more = "an object under the prefix or a reserved one has changed since the input"
    else:
        more = metadata.other_writer(facts.walk.above, facts.logical_task_key)
    return facts.refusal(code, f"{more}; {start_anew(facts.workspace.repository, branch)}")


def _who_of_us(facts: PublicationFacts) -> str:
    """Say which publication of this task stands on the input, and what helps."""
    if find_publication(facts) is not None:
        return "an earlier attempt published changes, and this one has none"
    policy = facts.walk.head.metadata.get(metadata.POLICY, "unknown")
    if policy == "settled":
        return "another execution of this task published it"
    return f"published by policy {policy} (retry under {policy})"


# The deadline ends the looking; this ends it also where a clock stands still. The specification
# says at most 20, with growing pauses (guarded by tests/unit/domain/test_settling.py).
LOOKS_MAX = 20
# Each round may find that another publisher was faster, so there are more of them. A refused merge
# costs lakeFS 3 ms, but 50 ms after 2,500 in a row: there has to be an end before the deadline.
ROUNDS_MAX = 40


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The merge did not happen: read the head again and decide anew."""

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


def after_merge(answer: outcome.MergeAnswer) -> AfterMerge:
    """Conclude from a merge's answer.

    200                    Published (after the parents check)
    412 with our text      look again
    412 without            refused for ever: another hook
    hook aborted, not 412  refused for ever: broken file under `_lakefs_actions/`
    409, 423, 429          look again
    400 no changes         refused for ever, never success
    400 dirty branch       refused, the decision stays
    another 4xx            refused
    anything else          unanswered, also a hook that lakeFS could not read or log
    """
    match answer:
        case outcome.Merged(commit):
            return Published(commit)
        case outcome.HeadMoved(text) | outcome.MergeConflict(text) | outcome.TooManyTries(text):
            return LookAgain(text)
        case outcome.RefusedByHook(text):
            return NotPublished("PRG-F010", f"a pre-merge hook refused the publication: {text}")
        case outcome.BrokenActions(text):
            reason = f"a file under _lakefs_actions/ is broken: {text}"
            return NotPublished("PRG-F011", reason, is_of_the_commit=True)
        case outcome.NoChanges(text):
            reason = f"the staged commit was merged before: {text}"
            return NotPublished("PRG-F012", reason, is_of_the_commit=True)
        case outcome.DirtyTarget(text):
            return NotPublished("PRG-F013", f"the target has uncommitted objects: {text}")
        case outcome.MergeRefused(text):
            return NotPublished("PRG-L003", f"lakeFS refused the merge: {text}")
        case outcome.NoAnswer(text):
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
        if record.metadata.get(metadata.EXECUTION_ID) == execution_id:
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
