"""One lakeFS installation: branches, commits, tags and repositories.

`Branches.merge` and `Branches.relocate` are the only two effects that move a target branch. The
laws in each docstring have one contract test each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

from perago.domain import lakefs
from perago.domain.outcome import MergeAnswer, RelocationAnswer
from perago.ports.objects import ObjectEntry, Page


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """One merge; every option that matters to correctness is spelled out."""

    repository: lakefs.RepositoryId
    source: str
    target: lakefs.BranchName
    message: str
    metadata: Mapping[str, str] = field(default_factory=lambda: lakefs.NO_METADATA)
    allow_empty: bool = False
    squash: bool = True  # else the commit's second parent is the source
    timeout_seconds: float = 60.0  # of a task without a budget, see `PublishTimes`


class BranchRecord(NamedTuple):
    """A branch and its head."""

    name: lakefs.BranchName
    head: lakefs.CommitId


BranchList: TypeAlias = list[tuple[lakefs.RepositoryId, lakefs.BranchName]]
"""Branches of several repositories."""


class Branches(Protocol):
    """Branches of one lakeFS installation.

    Laws (tests/contract/test_branches.py has one test for each, by name):

    B1 create_starts_at_source: a created branch has its source commit as head.
    B2 create_refuses_existing: creating a name twice raises BranchExistsError; the first stays.
    B3 create_needs_a_known_source: an unknown source raises ReferenceMissingError.
    B4 head_of_missing_branch: reading the head of an absent branch raises BranchMissingError,
       also where a tag has its name or a commit's id begins with it.
    B5 head_is_a_record: the head carries id, parents, metadata and message in one answer.
    B6 delete_is_idempotent: deleting an absent branch succeeds.
    B7 squash_merge_has_one_parent: a merge makes one commit whose only parent is the target's
       head, with the metadata and message that were sent.
    B8 merge_takes_a_commit_id: the source of a merge may be a commit.
    B9 stale_merge_lands_on_the_new_head: a merge decided on an old head lands on the new one
       when their changes do not conflict; nothing in the request prevents it.
    B10 conflicting_merge_is_a_conflict: both sides changed one object: MergeConflict, unmoved.
    B11 second_merge_of_a_squashed_source_makes_an_empty_commit: Merged again, same tree.
    B12 merge_of_an_ancestor_has_no_changes: NoChanges, and the branch is unmoved.
    B13 hook_refusal_names_the_head: with the fence file in the source commit, an expected head
       that is not the target's head is HeadMoved and the branch is unmoved.
    B14 hook_passes_the_expected_head: with the right expected head the merge is Merged.
    B15 hooks_come_from_the_source: a source without the fence file is merged unchecked and
       removes the file from the target.
    B16 other_hook_refusal_is_not_ours: another hook's refusal is RefusedByHook.
    B17 broken_action_file_blocks_the_merge: BrokenActions, and the branch is unmoved.
    B18 merge_into_a_dirty_branch: DirtyTarget, and nothing moves.
    B19 merge_into_missing_branch: BranchMissingError.
    B20 race_on_one_expected_head_has_one_winner: of concurrent fenced merges with one expected
       head exactly one is Merged.
    B21 relocate_points_the_branch: the head is the asked commit, whatever it was before.
    B22 relocate_of_a_protected_branch: RelocationRefused(protected=True); merges pass.
    B23 relocate_keeps_uncommitted_objects: a dirty branch is relocated and stays dirty.
    B24 relocate_to_an_unknown_commit: ReferenceMissingError, and the branch is unmoved.
    B25 list_is_paged_by_prefix: names with a prefix come in order, in pages, none twice.
    B26 branch_of_broken_actions_is_refused: creating a branch from a commit with a broken
       action file raises BrokenActionsError.
    B27 empty_merge_needs_allow_empty: merging a staged commit without any change is NoChanges
       unless empty merges are allowed.
    B28 conflicting_race_is_never_merged_twice: a refused merge leaves head and tree unchanged.
    B29 broken_actions_block_deletion: deleting a branch whose head has a broken action file
       raises BrokenActionsError, and the branch stays.
    B30 branches_share_names_with_tags: creating a branch that is named like a tag raises
       ExistsError, also from an unknown source, and there is no such branch.
    B31 lost_answer_is_unknown: law L0. A creation or a deletion whose answer is lost raises
       OutcomeUnknownError; a merge or a relocation is NoAnswer.
    B32 hidden_branch_is_listed_on_request: a branch created hidden stands in a listing only where
       hidden ones are shown, and pages are as full; it is read, merged and deleted as any other.
    B33 merge_without_squash_has_two_parents: the target's head and the source commit, in this
       order, with the metadata and message that were sent.
    B34 hook_sees_the_head_without_squash: an expected head is compared with the first of two
       parents, refused and passed as in a squash merge.
    B35 protect_adds_one_rule: the branches that a pattern covers are protected, the other rules
       stay; twice is once.
    B36 unprotect_takes_one_rule: the rule of exactly this pattern goes, the others stay; one that
       is absent is no error.
    B37 merge_without_a_message_names_both_sides: lakeFS writes one, with the source as it was sent.
    B38 hook_sees_the_source_as_it_was_sent: with the fence, a merge of a private branch, or of a
       decision's tag, that names no head is RefusedByHook, squashed or not; by the id of the same
       commit it is Merged.
    B39 ids_of_commits_are_no_names: creating a branch that is named like a whole commit id raises
       ExistsError, also from an unknown source.
    """

    async def head(
        self, repository: lakefs.RepositoryId, branch: lakefs.BranchName
    ) -> lakefs.CommitRecord:
        """Read the head commit with its parents and metadata, in one request."""
        ...

    async def create(
        self,
        repository: lakefs.RepositoryId,
        branch: lakefs.BranchName,
        source: lakefs.CommitId,
        *,
        hidden: bool = False,
    ) -> None:
        """Create a branch at a commit; a hidden one is not listed unless asked for."""
        ...

    async def delete(self, repository: lakefs.RepositoryId, branch: lakefs.BranchName) -> None:
        """Delete a branch; its uncommitted objects go with it."""
        ...

    async def list_page(
        self,
        repository: lakefs.RepositoryId,
        prefix: str,
        after: str = "",
        amount: int = 1000,
        *,
        show_hidden: bool = False,
    ) -> Page[BranchRecord]:
        """List branches whose names start with `prefix`, after a name.

        All private branches are hidden: a listing has them only where it asks for hidden ones.
        """
        ...

    async def merge(self, request: MergeRequest) -> MergeAnswer:
        """Merge; a lost answer is NoAnswer, never an exception."""
        ...

    async def relocate(
        self,
        repository: lakefs.RepositoryId,
        branch: lakefs.BranchName,
        to: lakefs.CommitId,
        *,
        timeout_seconds: float = 60.0,
    ) -> RelocationAnswer:
        """Point a branch to a commit (hard reset, never forced)."""
        ...

    async def is_protected(
        self, repository: lakefs.RepositoryId, branch: lakefs.BranchName
    ) -> bool:
        """Whether a protection rule covers the branch."""
        ...

    async def protect(
        self,
        repository: lakefs.RepositoryId,
        pattern: str,
        *,
        like: lakefs.BranchName | None = None,
    ) -> None:
        """Add a protection rule for names, in the manner of the one that covers `like`.

        The server may enforce it only after some seconds.
        """
        ...

    async def unprotect(self, repository: lakefs.RepositoryId, pattern: str) -> None:
        """Remove the protection rule of a pattern."""
        ...


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
class CommitRequest:
    """One commit on a branch; with `source_metarange` it takes exactly that tree."""

    repository: lakefs.RepositoryId
    branch: lakefs.BranchName
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
    C6 unknown_commit: reading an unknown reference raises ReferenceMissingError, and so does what
       is uncommitted (`main$`) or a view (`@`) of anything but a branch.
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
    C19 history_needs_no_goal: without a goal a walk is the newest commits of the history, up to
       the bound; the next walk begins at the first parent of the last one, and the root ends it.
    C20 lost_answer_is_unknown: law L0. A commit whose answer is lost raises OutcomeUnknownError.
    """

    async def read(self, repository: lakefs.RepositoryId, ref: str) -> lakefs.CommitRecord:
        """Read one commit by id, branch, tag or relative expression."""
        ...

    async def first_parents(
        self,
        repository: lakefs.RepositoryId,
        start: str,
        stop_at: lakefs.CommitId | None,
        *,
        commits_max: int,
    ) -> lakefs.FirstParentWalk:
        """Walk first parents from `start` (a branch or a commit) down to `stop_at` or the root."""
        ...

    async def commit(self, request: CommitRequest) -> lakefs.CommitId:
        """Commit what is staged on a branch."""
        ...

    async def diff_page(
        self,
        repository: lakefs.RepositoryId,
        left: lakefs.CommitId,
        right: lakefs.CommitId,
        *,
        prefix: str,
        after: str = "",
        amount: int = 1000,
    ) -> Page[Change]:
        """List paths under `prefix` that differ from left to right, without a merge base."""
        ...

    async def uncommitted_page(
        self,
        repository: lakefs.RepositoryId,
        branch: lakefs.BranchName,
        *,
        prefix: str = "",
        after: str = "",
        amount: int = 1000,
    ) -> Page[Change]:
        """List uncommitted paths of a branch."""
        ...


class TagRecord(NamedTuple):
    """A tag and its commit."""

    name: lakefs.TagName
    commit: lakefs.CommitId


class Tags(Protocol):
    """Tags of one lakeFS installation.

    Laws (tests/contract/test_branches.py has one test for each, by name):

    T1 create_puts_if_absent: a created tag reads back as its commit.
    T2 create_refuses_existing: a taken name raises TagExistsError and keeps its commit, also
       when the commit is the same.
    T3 race_has_one_winner: of concurrent creations of one name exactly one succeeds.
    T4 absent_tag_reads_as_none: reading an absent tag is None.
    T5 delete_is_idempotent: deleting an absent tag succeeds, and the name is free again.
    T6 list_is_paged_by_prefix: tags with a prefix come in order, in pages, none twice.
    T7 unknown_commit: a tag on an unknown commit raises ReferenceMissingError.
    T8 broken_actions_block_creation: a tag on a commit with a broken action file raises
       BrokenActionsError.
    T9 tags_share_names_with_branches: creating a tag that is named like a branch raises
       ExistsError, also on an unknown commit, and there is no such tag.
    T10 lost_answer_is_unknown: law L0. A creation or a deletion whose answer is lost raises
       OutcomeUnknownError.
    T11 ids_of_commits_are_no_names: as B39, for a tag.
    """

    async def create(
        self, repository: lakefs.RepositoryId, tag: lakefs.TagName, commit: lakefs.CommitId
    ) -> None:
        """Create a tag; TagExistsError when taken, OutcomeUnknownError when unanswered."""
        ...

    async def read(
        self, repository: lakefs.RepositoryId, tag: lakefs.TagName
    ) -> lakefs.CommitId | None:
        """The tag's commit, or None."""
        ...

    async def list_page(
        self, repository: lakefs.RepositoryId, prefix: str, after: str = "", amount: int = 1000
    ) -> Page[TagRecord]:
        """List tags that start with `prefix`, after a name."""
        ...

    async def delete(self, repository: lakefs.RepositoryId, tag: lakefs.TagName) -> None:
        """Delete a tag."""
        ...


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """What lakeFS says of a repository."""

    repository: lakefs.RepositoryId
    default_branch: lakefs.BranchName
    storage_namespace: str
    read_only: bool


class Repositories(Protocol):
    """Repositories of one lakeFS installation.

    Laws (tests/contract/test_branches.py has one test for each, by name):

    R1 read_names_the_default_branch: a repository is read with its default branch.
    R2 unknown_repository: raises RepositoryMissingError.
    R3 read_only_is_said: a read-only repository says so.
    R4 pages_name_every_repository_once: in order, each page after the last name of the one before.
    """

    async def read(self, repository: lakefs.RepositoryId) -> RepositoryFacts:
        """Read one repository."""
        ...

    async def list_page(self, after: str = "", amount: int = 1000) -> Page[lakefs.RepositoryId]:
        """One page of the repositories that this worker may see."""
        ...
