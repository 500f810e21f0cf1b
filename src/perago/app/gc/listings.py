"""Whole listings, page by page; bounded, because nothing else bounds what a repository holds."""

from collections.abc import AsyncIterator

from perago.domain.references import BranchName, RepositoryId
from perago.ports.branches import Branches
from perago.ports.tags import TagRecord, Tags

PAGES_MAX = 1000


async def all_tags(tags: Tags, repository: RepositoryId, prefix: str) -> AsyncIterator[TagRecord]:
    """Tags that start with `prefix`, in order."""
    after = ""
    for _ in range(PAGES_MAX):
        page = await tags.list_page(repository, prefix, after)
        for tag in page.tags:
            yield tag
        if not page.more:
            return
        after = page.tags[-1].name


async def all_branches(
    branches: Branches, repository: RepositoryId, prefix: str
) -> AsyncIterator[BranchName]:
    """Names of branches that start with `prefix`, in order."""
    after = ""
    for _ in range(PAGES_MAX):
        page = await branches.list_page(repository, prefix, after)
        for name in page.names:
            yield name
        if not page.more:
            return
        after = page.names[-1]
