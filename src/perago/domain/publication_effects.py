"""The operations that may follow a decision, as values; exactly one of them ends an attempt.

Each value is complete: whoever performs it asks nobody. Performing is not known here.
"""

from dataclasses import dataclass
from typing import TypeAlias

from perago.domain.references import CommitId, CommitRecord, StagedReference


@dataclass(frozen=True, slots=True)
class MergeStaged:
    """Squash merge of the staged commit; the target is expected to be at `expected_head`."""

    staged: StagedReference
    expected_head: CommitId


@dataclass(frozen=True, slots=True)
class MergeExactTree:
    """Publish exactly the tree of `tree` on top of `expected_head`, superseding it."""

    tree: CommitId
    staged: StagedReference | None
    expected_head: CommitId


@dataclass(frozen=True, slots=True)
class Relocate:
    """Point the branch to `to`; `abandoned` is the head that leaves the history."""

    to: CommitId
    abandoned: CommitId
    owner_is_known: bool


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing is written; the output is the input ref."""

    ref: CommitId


@dataclass(frozen=True, slots=True)
class Adopt:
    """A publication of this very execution is already there; it is the output."""

    publication: CommitRecord


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was found cannot be explained: nothing may be written."""

    code: str
    reason: str
    input_ref: CommitId
    head: CommitRecord


Effect: TypeAlias = MergeStaged | MergeExactTree | Relocate | Keep | Adopt
Decision: TypeAlias = Effect | Refusal
