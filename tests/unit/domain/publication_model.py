"""The three policies once more, slow and obvious, as a second opinion for the properties.

Written from the tables of the specification (sections 6 and 7.2) and not from the code: an answer
is a short tuple, and every condition is a plain question about the list of commits.
"""

from typing import TypeAlias

from perago.domain.lakefs import CommitRecord
from perago.domain.publication import (
    Adopt,
    Decision,
    Keep,
    MergeExactTree,
    MergeStaged,
    PublicationFacts,
    Refusal,
    Relocate,
)

Answer: TypeAlias = tuple[str, ...]
REFUSE: Answer = ("refuse",)


def spell(decision: Decision) -> Answer:
    """A decision as the model writes it."""
    match decision:
        case MergeStaged(staged, expected_head):
            return ("merge", staged.commit, "expecting", expected_head)
        case MergeExactTree(tree, _, expected_head):
            return ("exact tree", tree, "expecting", expected_head)
        case Relocate(to, abandoned, owner_is_known):
            return ("relocate", to, "leaving", abandoned, "known" if owner_is_known else "warned")
        case Keep(ref):
            return ("keep", ref)
        case Adopt(publication):
            return ("adopt", publication.commit)
        case Refusal():
            return REFUSE


def above_input(facts: PublicationFacts) -> list[CommitRecord]:
    """What stands above the input, the oldest first; only meaningful when the input was met."""
    found = [record for record in facts.walk.commits if record.commit != facts.workspace.ref]
    return list(reversed(found))


def head_parent(facts: PublicationFacts) -> Answer:
    """H = A; parents(H) = (A) exactly; anything else. With the ownership veto."""
    head, a = facts.walk.commits[0], facts.workspace.ref
    result = a if facts.staged is None else facts.staged.commit
    if head.commit == a:
        return ("keep", a) if facts.staged is None else ("merge", result, "expecting", a)
    if len(head.parents) != 1 or head.parents[0] != a:
        return REFUSE
    if "perago.logical_task_key" not in head.metadata:
        if facts.require_ownership:
            return REFUSE
        return ("relocate", result, "leaving", head.commit, "warned")
    if head.metadata["perago.logical_task_key"] != facts.logical_task_key:
        return REFUSE
    return ("relocate", result, "leaving", head.commit, "known")


def lineage(facts: PublicationFacts) -> Answer:
    """H = A; every commit between of our task; anything else, A not found, too many."""
    head, a = facts.walk.commits[0], facts.workspace.ref
    result = a if facts.staged is None else facts.staged.commit
    if head.commit == a:
        return ("keep", a) if facts.staged is None else ("merge", result, "expecting", a)
    if not facts.walk.reached or len(above_input(facts)) > 1024:
        return REFUSE
    for record in above_input(facts):
        if record.metadata.get("perago.logical_task_key") != facts.logical_task_key:
            return REFUSE
    return ("exact tree", result, "expecting", head.commit)


def settled(facts: PublicationFacts) -> Answer:
    """Section 7.2 step 4, and 7.3 where the isolation is by prefix."""
    head, a = facts.walk.commits[0], facts.workspace.ref
    by_prefix = facts.isolation == "prefix"
    nothing_moved = head.commit == a or (by_prefix and facts.walk.reached and facts.untouched)
    if facts.staged is None:
        return ("keep", a) if nothing_moved else REFUSE
    if head.commit != a and facts.walk.reached:
        between = above_input(facts)
        for record in reversed(between) if by_prefix else between[:1]:
            if is_our_publication(facts, record):
                return ("adopt", record.commit)
    if nothing_moved:
        return ("merge", facts.staged.commit, "expecting", head.commit)
    return REFUSE


def is_our_publication(facts: PublicationFacts, record: CommitRecord) -> bool:
    """Key, branch and parents agree; no key is nobody's key."""
    said = record.metadata
    if facts.execution_key is None or "perago.expected_head" not in said:
        return False
    return (
        said.get("perago.logical_execution_key") == facts.execution_key
        and said.get("perago.target_branch") == facts.workspace.branch
        and list(record.parents) == [said["perago.expected_head"]]
    )
