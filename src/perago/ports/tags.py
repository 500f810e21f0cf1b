"""Tags: names that are put if absent, which makes them the agreement of many writers."""

from dataclasses import dataclass
from typing import Protocol

from perago.domain.references import CommitId, RepositoryId, TagName


@dataclass(frozen=True, slots=True)
class TagRecord:
    """A tag and its commit."""

    name: TagName
    commit: CommitId


@dataclass(frozen=True, slots=True)
class TagPage:
    """One page of tags in order; `more` says that names follow the last one."""

    tags: tuple[TagRecord, ...]
    more: bool


class Tags(Protocol):
    """Tags of one lakeFS installation.

    Laws (tests/contract/test_tags.py has one test for each, by name):

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
       ExistsError, and there is no such tag.
    """

    async def create(self, repository: RepositoryId, tag: TagName, commit: CommitId) -> None:
        """Create a tag; TagExistsError when taken, OutcomeUnknownError when unanswered."""
        ...

    async def read(self, repository: RepositoryId, tag: TagName) -> CommitId | None:
        """The tag's commit, or None."""
        ...

    async def list_page(
        self, repository: RepositoryId, prefix: str, after: str = "", amount: int = 1000
    ) -> TagPage:
        """List tags that start with `prefix`, after a name."""
        ...

    async def delete(self, repository: RepositoryId, tag: TagName) -> None:
        """Delete a tag."""
        ...
