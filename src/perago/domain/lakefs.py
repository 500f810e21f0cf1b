"""What lakeFS has, as values: repositories, branches, tags, commits, and what refers to them.

Nothing here asks a server.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NewType

RepositoryId = NewType("RepositoryId", str)
BranchName = NewType("BranchName", str)
TagName = NewType("TagName", str)
CommitId = NewType("CommitId", str)

# No name may be one of these: in a path they mean "here" and "above", or vanish, so a client or a
# proxy would turn a question about a branch into one about its repository, and so would a deletion.
IMPOSSIBLE_NAMES = frozenset({"", ".", ".."})

NO_METADATA: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class WorkspaceReference:
    """What a task's input names: the target branch and the commit the attempt starts from."""

    repository: RepositoryId
    branch: BranchName
    ref: CommitId


@dataclass(frozen=True, slots=True)
class StagedReference:
    """A staged commit with the private branch that keeps its data: always all three."""

    repository: RepositoryId
    branch: BranchName
    commit: CommitId


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One immutable commit as lakeFS answers it; the first parent is the history it stands on."""

    commit: CommitId
    parents: tuple[CommitId, ...]
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    message: str = ""
    metarange: str = ""
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class FirstParentWalk:
    """First parents from a head downwards, the head first.

    `commits` ends with the commit that was looked for when `reached` is true; otherwise the walk
    ran to the root or, when `truncated` is true, to the bound of the question.
    """

    commits: tuple[CommitRecord, ...]
    reached: bool
    truncated: bool = False

    @property
    def head(self) -> CommitRecord:
        """The commit the walk started from."""
        return self.commits[0]

    @property
    def above(self) -> tuple[CommitRecord, ...]:
        """The commits on top of the one looked for, newest first; all of them if not reached."""
        return self.commits[:-1] if self.reached else self.commits
