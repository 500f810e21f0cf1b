"""What became of an effect on the target branch, and what lakeFS may answer to a merge.

Unknown is a value of its own: nobody may treat it as "did not happen".
"""

from dataclasses import dataclass
from typing import TypeAlias

from perago.domain.references import CommitId


@dataclass(frozen=True, slots=True)
class Published:
    """The effect is on the target branch as this commit."""

    ref: CommitId


@dataclass(frozen=True, slots=True)
class NotPublished:
    """The effect did not happen and never will."""

    code: str
    reason: str
    is_of_the_commit: bool = False
    """Whether the reason lies in what is to be published, so that sending it again cannot help."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request left and nobody knows yet; `reason` is what was seen."""

    reason: str


PublicationOutcome: TypeAlias = Published | NotPublished | Unknown


@dataclass(frozen=True, slots=True)
class Merged:
    """200: the merge made this commit."""

    commit: CommitId


@dataclass(frozen=True, slots=True)
class HeadMoved:
    """412 with our hook's text: the target's head is not the expected one."""

    text: str


@dataclass(frozen=True, slots=True)
class RefusedByHook:
    """412 without our text: somebody else's hook refused."""

    text: str


@dataclass(frozen=True, slots=True)
class BrokenActions:
    """`hook aborted` in any other status: a file under `_lakefs_actions/` cannot be used."""

    text: str


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """409: a conflict, or a lost race (conflicts are computed before the hook runs)."""

    text: str


@dataclass(frozen=True, slots=True)
class NoChanges:
    """400 `no changes`: the staged commit is already an ancestor; never success."""

    text: str


@dataclass(frozen=True, slots=True)
class DirtyTarget:
    """400 dirty branch: somebody left uncommitted objects on the target."""

    text: str


@dataclass(frozen=True, slots=True)
class TooManyTries:
    """423 or 429: the server gave up after its own retries; nothing happened."""

    text: str


@dataclass(frozen=True, slots=True)
class MergeRefused:
    """Any other 4xx: the request was understood and refused."""

    text: str


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """499, 503, another 5xx, a time-out or a broken connection after the request left."""

    text: str


MergeAnswer: TypeAlias = (
    Merged
    | HeadMoved
    | RefusedByHook
    | BrokenActions
    | MergeConflict
    | NoChanges
    | DirtyTarget
    | TooManyTries
    | MergeRefused
    | NoAnswer
)


@dataclass(frozen=True, slots=True)
class Relocated:
    """204: the branch points to the asked commit."""


@dataclass(frozen=True, slots=True)
class RelocationRefused:
    """4xx: the branch did not move; `protected` when branch protection was the reason."""

    text: str
    protected: bool = False


RelocationAnswer: TypeAlias = Relocated | RelocationRefused | NoAnswer
