"""Branches of one lakeFS installation, and the only two effects that move a target branch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from perago.domain.outcome import MergeAnswer, RelocationAnswer
from perago.domain.references import (
    NO_METADATA,
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
)


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """One squash merge; every option that matters to correctness is spelled out."""

    repository: RepositoryId
    source: str
    target: BranchName
    message: str
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    allow_empty: bool = False
    timeout_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class BranchPage:
    """One page of branch names in order; `more` says that names follow the last one."""

    names: tuple[BranchName, ...]
    heads: tuple[CommitId, ...]
    more: bool


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
       ExistsError, and there is no such branch.
    """

    async def head(self, repository: RepositoryId, branch: BranchName) -> CommitRecord:
        """Read the head commit with its parents and metadata, in one request."""
        ...

    async def create(self, repository: RepositoryId, branch: BranchName, source: CommitId) -> None:
        """Create a branch at a commit."""
        ...

    async def delete(self, repository: RepositoryId, branch: BranchName) -> None:
        """Delete a branch; its uncommitted objects go with it."""
        ...

    async def list_page(
        self, repository: RepositoryId, prefix: str, after: str = "", amount: int = 1000
    ) -> BranchPage:
        """List branch names that start with `prefix`, after a name."""
        ...

    async def merge(self, request: MergeRequest) -> MergeAnswer:
        """Squash-merge; a lost answer is NoAnswer, never an exception."""
        ...

    async def relocate(
        self,
        repository: RepositoryId,
        branch: BranchName,
        to: CommitId,
        *,
        timeout_seconds: float = 60.0,
    ) -> RelocationAnswer:
        """Point a branch to a commit (hard reset, never forced)."""
        ...

    async def is_protected(self, repository: RepositoryId, branch: BranchName) -> bool:
        """Whether a protection rule covers the branch."""
        ...
