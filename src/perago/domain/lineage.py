"""Policy `lineage`: every commit above the input must be ours, as in documents 001 and 002.

Abandoned publications stay in the history and are superseded by an exact tree on top of them.
"""

from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.publication import Decision, MergeExactTree, Promises, PublicationFacts

_PLAIN = Promises(
    never_lost="yes",
    never_overwritten="lakeFS merges onto it silently",
    never_stale="no",
    at_most_once="no",
    on_protected_branches="yes",
    runs_again="yes",
)
PROMISES = (
    _PLAIN,
    _PLAIN._replace(
        never_overwritten="lakeFS refuses the merge",
        never_stale="possible, but only from an attempt of the same task",
    ),
)

REMEDY = "nothing was published"
FIRST_PARENT_COMMITS_MAX = 1024  # documents 001 and 002 set it: one more is PRG-F004


def decide(facts: PublicationFacts) -> Decision:
    """Choose the one operation that may follow.

    above the input:   nothing        only our key                   another or no key, unreachable
    changed            MergeStaged    MergeExactTree of the staged   Refusal
    unchanged          Keep           MergeExactTree of the input    Refusal
    """
    workspace = facts.workspace
    if facts.at_input:
        return facts.on_head()
    # Attempts read one commit more than this. A history whose root is that one is not truncated.
    if facts.walk.truncated or len(facts.walk.above) > FIRST_PARENT_COMMITS_MAX:
        text = f"{workspace.branch} advanced beyond supported publish range"
        return facts.refusal("PRG-F004", f"{text}; {REMEDY}")
    if not facts.walk.reached:
        text = f"{workspace.branch} no longer contains workspace input ref {workspace.ref}"
        return facts.refusal("PRG-F005", f"{text}; {REMEDY}")
    for record in facts.walk.above:
        owner = record.metadata.get(LOGICAL_TASK_KEY)
        if owner != facts.logical_task_key:
            text = f"commit {record.commit} belongs to {owner or 'no known task'}"
            return facts.refusal("PRG-F002", f"{text}; {REMEDY}")
    tree = workspace.ref if facts.staged is None else facts.staged.commit
    return MergeExactTree(tree, facts.staged, expected_head=facts.walk.head.commit)
