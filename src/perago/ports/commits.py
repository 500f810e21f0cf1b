"""Commits: making them, reading them, walking first parents, asking what differs."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from perago.domain.references import (
    BranchName,
    CommitId,
    CommitRecord,
    FirstParentWalk,
    RepositoryId,
)
from perago.ports.objects import ObjectEntry


class ChangeKind(StrEnum):
    """What happened to a path from left to right."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs; `entry` is the right side's object where the answer carries it."""

    path: str
    kind: ChangeKind
    entry: ObjectEntry | None = None


@dataclass(frozen=True, slots=True)
class ChangePage:
    """One page of differing paths in order; `more` says that some follow the last one."""

    changes: tuple[Change, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One commit on a branch; with `source_metarange` it takes exactly that tree."""

    repository: RepositoryId
    branch: BranchName
    message: str
    metadata: Mapping[str, str]
    allow_empty: bool = False
    source_metarange: str | None = None


class Commits(Protocol):
    """Commits of one lakeFS installation.

    Laws (tests/contract/test_commits.py has one test for each, by name):

    C1 commit_has_the_branch_head_as_parent: a commit stands on the branch's head, carries the
       metadata and message that were sent, and becomes the head.
    C2 empty_commit_is_refused: a commit without changes raises NothingToCommitError.
    C3 empty_commit_when_allowed: allow_empty makes a commit with the same tree.
    C4 exact_tree: a commit from another commit's metarange has that tree and the branch's head
       as parent.
    C5 read_by_id: a commit is read back with parents, metadata, message, metarange.
    C6 unknown_commit: reading an unknown reference raises ReferenceMissingError.
    C7 walk_ends_at_the_asked_commit: first parents from a branch down to a commit, both in the
       answer, `reached` true.
    C8 walk_off_the_chain_is_not_reached: a commit that is not a first parent is not reached;
       the walk runs to the root.
    C9 walk_is_bounded: more commits than the bound are cut, `truncated` true.
    C10 walk_crosses_pages: a walk longer than one page is complete and in order.
    C11 walk_to_an_unknown_commit: an unknown goal raises ReferenceMissingError.
    C12 diff_names_what_differs: added, removed and changed paths between two commits.
    C13 diff_respects_the_prefix: only paths with the prefix, siblings that share it excluded
       by its trailing slash.
    C14 diff_is_directed: swapped sides swap added and removed.
    C15 diff_is_paged: every path once, in order, over pages.
    C16 uncommitted_names_what_is_staged: uncommitted additions, changes and removals of a
       branch, none after the commit.
    C17 same_bytes_are_not_a_change: writing the same bytes again can be committed only as
       empty.
    C18 broken_action_file_is_refused: a commit on a branch that holds a broken action file,
       committed or not, raises BrokenActionsError.
    """

    async def read(self, repository: RepositoryId, ref: str) -> CommitRecord:
        """Read one commit by id, branch, tag or relative expression."""
        ...

    async def first_parents(
        self, repository: RepositoryId, start: str, stop_at: CommitId, *, commits_max: int
    ) -> FirstParentWalk:
        """Walk first parents from `start` (a branch or a commit) down to `stop_at`."""
        ...

    async def commit(self, request: CommitRequest) -> CommitId:
        """Commit what is staged on a branch."""
        ...

    async def diff_page(
        self,
        repository: RepositoryId,
        left: CommitId,
        right: CommitId,
        *,
        prefix: str,
        after: str = "",
        amount: int = 1000,
    ) -> ChangePage:
        """List paths under `prefix` that differ from left to right, without a merge base."""
        ...

    async def uncommitted_page(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 1000,
    ) -> ChangePage:
        """List uncommitted paths of a branch."""
        ...
