"""What a policy is told before it decides: the target's history, the staged commit, the keys.

Collected by the application in one place; a policy never asks for more.
"""

from dataclasses import dataclass
from enum import StrEnum

from perago.domain.references import FirstParentWalk, StagedReference, WorkspaceReference


class Isolation(StrEnum):
    """What must not have moved between the input and the head: the branch, or the prefix."""

    BRANCH = "branch"
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """Facts of one moment, read before the last attempt fence.

    `staged` is None when nothing changed. `untouched` says that nothing under the prefix and
    nothing reserved differs between the input and the head; it is asked only under prefix
    isolation.
    """

    workspace: WorkspaceReference
    walk: FirstParentWalk
    staged: StagedReference | None
    logical_task_key: str
    execution_key: str | None = None
    isolation: Isolation = Isolation.BRANCH
    untouched: bool = False
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

    def refusal_reason(self) -> str:
        """The documents' text for a head that cannot be explained."""
        verb = "complete no-op" if self.staged is None else "publish"
        place = self.workspace
        return (
            f"{place.branch} cannot {verb} from input ref {place.ref}; "
            f"current head is {self.walk.head.commit}"
        )
