"""Situations that a search must have met: a run that never met one did not look there.

The engine and the monitor name what they see; these are the names that have to come up.
"""

from collections.abc import Mapping, Sequence

SOMETIMES: Sequence[str] = (
    # What became of requests.
    "branches.merge: lands late",
    "branches.merge landed late",
    "branches.merge landed late, its sender dead",
    "branches.merge: answer lost",
    "branches.merge: request lost",
    "branches.merge: crash after",
    "branches.merge: crash before",
    "branches.merge: refused",
    "branches.create landed late, its sender dead",
    "branches.delete landed late, its sender dead",
    "commits.commit: answer lost",
    "commits.commit landed late, its sender dead",
    "objects.upload landed late",
    "queue.complete: answer lost",
    "queue.complete: crash after",
    "queue.complete landed late",
    "queue.complete landed late, its sender dead",
    "queue.poll: crash before",
    "tags.create: answer lost",
    "tags.create: crash after",
    "tags.create landed late",
    "tags.create landed late, its sender dead",
    "tags.delete: refused",
    "crashed in the body",
    "a function was drained",
    # What attempts did.
    "published: merged",
    "published: adopted",
    "published: kept",
    "published: appended",
    "published: relocated",
    "published in a later round",
    "resumed a decision",
    "resumed a no-op",
    "decided",
    "took over the decision of another",
    "kept staging",
    "took a checkpoint",
    "went on from a checkpoint",
    "went on with a kept outcome",
    "warned: a kept outcome cannot be used",
    "COMPLETED was recorded",
    "COMPLETED was superseded",
    "FAILED was recorded",
    "an attempt ended with PRG-F001",
    "an attempt ended with PRG-F002",
    # Who stood where.
    "stood still before branches.merge",
    "stood still before tags.create",
    "stood still before queue.complete",
    "stood still before commits.commit",
    "a stale attempt moved the target in its last step",
    "an end met a row that changed hands after the last look",
    # What Conductor did.
    "a row was handed out twice",
    "a worker of the release before took a row",
    "a row was handed back and its redelivery published",
    "a retry was polled",
    "a lease expired while its process lived",
    "a beat was read and written later",
    "Conductor wrote a row late",
    "the workflow ended COMPLETED",
    "the workflow ended FAILED",
    # What people and other tools did.
    "operator: rerun",
    "operator: rerun with another input",
    "operator: restart",
    "operator: pause",
    "others: a cherry-pick of a publication",
    "others: a merge of a staging branch by hand",
    "others: a revert of the head",
    "others: an empty commit",
    "reset-task ran",
    "a branch was relocated",
)


def never_met(seen: Mapping[str, int]) -> list[str]:
    """The situations of the list with count 0."""
    return [name for name in SOMETIMES if not seen.get(name)]
