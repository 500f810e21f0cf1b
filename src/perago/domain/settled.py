"""Policy `settled`: one decision for each logical execution, merged only on the head it names.

The decision (which staged commit) was made before by creating a tag; this file says what may be
done with it now. Safe only with the fence installed, which is checked before the body runs.
"""

from perago.domain.commit_metadata import (
    EXPECTED_HEAD,
    LOGICAL_EXECUTION_KEY,
    LOGICAL_TASK_KEY,
    POLICY,
    TARGET_BRANCH,
)
from perago.domain.publication_effects import Adopt, Decision, Keep, MergeStaged, Refusal
from perago.domain.publication_facts import Isolation, PublicationFacts
from perago.domain.references import CommitRecord

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
        return _publish_on_head(facts)
    if facts.staged is not None:
        found = find_publication(facts)
        if found is not None:
            return Adopt(found)
    if facts.isolation is Isolation.PREFIX and facts.walk.reached and facts.untouched:
        return _publish_on_head(facts)
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
        mine = record.metadata.get(LOGICAL_EXECUTION_KEY) == facts.execution_key
        here = record.metadata.get(TARGET_BRANCH) == facts.workspace.branch
        if mine and here and record.parents == (record.metadata.get(EXPECTED_HEAD),):
            return record
    return None


def _publish_on_head(facts: PublicationFacts) -> Decision:
    if facts.staged is None:
        return Keep(facts.workspace.ref)
    return MergeStaged(facts.staged, expected_head=facts.walk.head.commit)


def _refuse(facts: PublicationFacts) -> Refusal:
    head, branch = facts.walk.head, facts.workspace.branch
    code = "PRG-F002"
    if facts.child_of_input and head.metadata.get(LOGICAL_TASK_KEY) == facts.logical_task_key:
        more = _who_of_us(facts)
    elif facts.walk.truncated:
        code, more = "PRG-F004", f"{branch} advanced beyond supported publish range"
    elif not facts.walk.reached:
        text = f"{branch} no longer contains workspace input ref {facts.workspace.ref}"
        code, more = "PRG-F005", text
    elif facts.isolation is Isolation.PREFIX:
        more = "something under the prefix or reserved changed since the input"
    else:
        more = "somebody else published"
    remedy = start_anew(facts.workspace.repository, branch)
    text = f"{facts.refusal_reason()}; {more}; {remedy}"
    return Refusal(code, text, facts.workspace.ref, head)


def _who_of_us(facts: PublicationFacts) -> str:
    """Say which publication of this task stands on the input, and what helps."""
    if find_publication(facts) is not None:
        return "this execution published before, and is a no-op now"
    policy = facts.walk.head.metadata.get(POLICY, "unknown")
    if policy == "settled":
        return "another execution of this task published it"
    return f"published by policy {policy} (retry under {policy})"


def start_anew(repository: str, branch: str) -> str:
    """The way out; the command shows the commit that the new workflow's input has to name."""
    place = f"lakefs://{repository}/{branch}"
    return f"start a new workflow from the current head: `lakectl branch show {place}`"
