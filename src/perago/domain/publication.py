"""What a policy is told before it decides, and what it may decide.

`PublicationFacts` is the target's history, the staged commit and the keys; the application collects
it in one place. The effects and `Refusal` are the decisions. `Promises` is what a policy says of
itself for docs/guarantees.md; each policy's file has its own columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from perago.domain import lakefs


class Isolation(StrEnum):
    """What must not have moved between the input and the head: the branch, or the prefix."""

    BRANCH = "branch"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """Facts of one moment, read before the last attempt fence.

    `staged` is None when nothing changed. `untouched` says that nothing under the prefix and
    nothing reserved differs between the input and the head; it is asked only under prefix
    isolation. `removed` is the first object below the prefix that the input has and the staged
    commit has not; it is asked only if the policy's row says that its table reads it.
    """

    workspace: lakefs.WorkspaceReference
    walk: lakefs.FirstParentWalk
    staged: lakefs.StagedReference | None
    logical_task_key: str
    execution_key: str | None = None
    isolation: Isolation = Isolation.BRANCH
    untouched: bool = False
    removed: str | None = None
    require_ownership: bool = False

    @property
    def at_input(self) -> bool:
        """Whether the target's head is the very commit this attempt started from."""
        return self.walk.head.commit == self.workspace.ref

    @property
    def child_of_input(self) -> bool:
        """Whether the head has exactly one parent, the input.

        Exactly one, because our merges squash: a commit with two parents is a human's merge.
        """
        return self.walk.head.parents == (self.workspace.ref,)

    def on_head(self) -> "MergeStaged | Keep":
        """Publish what was staged on the head that was read; without changes the input stays."""
        if self.staged is None:
            return Keep(self.workspace.ref)
        return MergeStaged(self.staged, expected_head=self.walk.head.commit)

    def refusal(self, code: str, more: str) -> "Refusal":
        """The documents' text for a head that cannot be explained, and what more is known of it."""
        verb = "complete no-op" if self.staged is None else "publish"
        workspace = self.workspace
        text = f"{workspace.branch} cannot {verb} from input ref {workspace.ref}"
        return Refusal(code, f"{text}; current head is {self.walk.head.commit}; {more}")


@dataclass(frozen=True, slots=True)
class MergeStaged:
    """Squash merge of the staged commit; the target is expected to be at `expected_head`."""

    staged: lakefs.StagedReference
    expected_head: lakefs.CommitId


@dataclass(frozen=True, slots=True)
class MergeExactTree:
    """Publish exactly the tree of `tree` on top of `expected_head`, superseding it."""

    tree: lakefs.CommitId
    staged: lakefs.StagedReference | None
    expected_head: lakefs.CommitId


@dataclass(frozen=True, slots=True)
class Relocate:
    """Point the branch to `to`; `abandoned` is the head that leaves the history."""

    to: lakefs.CommitId
    abandoned: lakefs.CommitId
    owner_is_known: bool


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing is written; the output is the input ref."""

    ref: lakefs.CommitId


@dataclass(frozen=True, slots=True)
class Adopt:
    """A publication of this very execution is already there; it is the output."""

    publication: lakefs.CommitRecord


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was found cannot be explained: nothing may be written."""

    code: str
    reason: str


Effect: TypeAlias = MergeStaged | MergeExactTree | Relocate | Keep | Adopt
Decision: TypeAlias = Effect | Refusal

EFFECT_LABELS: Mapping[type[Effect], str] = {
    MergeStaged: "merged",
    MergeExactTree: "appended",
    Relocate: "relocated",
    Keep: "kept",
    Adopt: "adopted",
}
"""What events, metrics and logs call an effect; docs/operations.md explains each."""


class Promises(NamedTuple):
    """How far each promise goes at one level; docs/guarantees.md has the promises as sentences."""

    never_lost: str
    never_overwritten: str
    never_stale: str
    at_most_once: str
    on_protected_branches: str
    runs_again: str
