"""Policy `head-parent`: the head and its parent decide, as in documents 000 and 003.

Commit metadata is evidence here, with one exception: a head that carries another task's key
is not an abandoned publication of ours.
"""

from perago.domain.commit_metadata import LOGICAL_TASK_KEY, written_by
from perago.domain.publication import Decision, Promises, PublicationFacts, Relocate

_LOST_WITHOUT_FENCE = (
    "only if nothing else writes to the branch and no request of a timed-out attempt arrives late"
)
_DROPPED = "relocation can drop it if its metadata names no other owner"
_PLAIN = Promises(
    never_lost=_LOST_WITHOUT_FENCE,
    never_overwritten=f"lakeFS merges onto it silently; {_DROPPED}",
    never_stale="no (late requests)",
    at_most_once="no",
    on_protected_branches="first publication only",
    runs_again="yes",
)
PROMISES = (
    _PLAIN,
    _PLAIN._replace(
        never_lost=f"merges: yes; relocation: {_LOST_WITHOUT_FENCE}",
        never_overwritten=f"lakeFS refuses the merge; {_DROPPED}",
        never_stale="no (late requests after a no-op)",
    ),
)

REMEDY = "nothing was published; start a new workflow from the current head"


def decide(facts: PublicationFacts) -> Decision:
    """Choose the one operation that may follow.

    head:          the input      its child, ours or foreign    anything else
    changed        MergeStaged    Relocate to the staged        Refusal
    unchanged      Keep           Relocate to the input         Refusal
    """
    if facts.at_input:
        return facts.on_head()
    if facts.child_of_input:
        return _replace_abandoned(facts)
    who = written_by(facts.walk.head, facts.logical_task_key)
    return facts.refusal("PRG-F002", f"published by {who}; {REMEDY}")


def _replace_abandoned(facts: PublicationFacts) -> Decision:
    """Replace the head, unless its metadata names another task as its owner.

    Release 0.6.1 and people name no owner. Only PERAGO_REQUIRE_OWNERSHIP refuses such a head.
    """
    head = facts.walk.head
    owner = head.metadata.get(LOGICAL_TASK_KEY)
    if owner is None and facts.require_ownership:
        return facts.refusal("PRG-F003", f"it names no owner; {REMEDY}")
    if owner is not None and owner != facts.logical_task_key:
        return facts.refusal("PRG-F003", f"it belongs to {owner}; {REMEDY}")
    to = facts.workspace.ref if facts.staged is None else facts.staged.commit
    return Relocate(to, abandoned=head.commit, owner_is_known=owner is not None)
