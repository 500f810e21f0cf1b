"""what a staged commit would change on its target: the work of `perago diff`.

The changes of one attempt stand on its staging branch until they are published. They are compared
with the commit that the attempt started from. Nothing is written.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from perago.domain.commit_metadata import INPUT_REF
from perago.domain.logical_execution import (
    STAGING_BRANCH_PREFIX,
    BranchName,
    CommitId,
    RepositoryId,
)
from perago.domain.names import is_execution_id, is_private_branch
from perago.ports.asking import pages
from perago.ports.errors import MissingError
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import BranchPage, Change, ChangePage


@dataclass(frozen=True, slots=True)
class HeldChanges:
    """A private branch with changes: its head, and the commit that they are compared with."""

    repository: RepositoryId
    branch: BranchName
    base: CommitId
    head: CommitId


async def find_held(
    lakefs: LakeFSInstallation, name: str, repositories: Sequence[RepositoryId]
) -> HeldChanges | None:
    """Find the private branch that `name` means: by its name, or by the execution that made it."""
    for repository in repositories:
        branch = await _branch(lakefs, repository, name)
        if branch is None:
            continue
        try:
            head = await lakefs.branches.head(repository, branch)
        except MissingError:
            continue
        # A staged commit says what it was made from. Before it is made the branch has no changes.
        base = CommitId(head.metadata.get(INPUT_REF, head.commit))
        return HeldChanges(repository, branch, base, head.commit)
    return None


async def all_repositories(lakefs: LakeFSInstallation) -> list[RepositoryId]:
    """Every repository, in order."""
    return [name async for page in pages(lakefs.repositories.list_page) for name in page.names]


async def changes_of(lakefs: LakeFSInstallation, held: HeldChanges) -> AsyncGenerator[Change]:
    """Every object that differs, in order of path."""

    async def ask(after: str) -> ChangePage:
        return await lakefs.commits.diff_page(
            held.repository, held.base, held.head, prefix="", after=after
        )

    async for page in pages(ask):
        for change in page.changes:
            yield change


async def _branch(
    lakefs: LakeFSInstallation, repository: RepositoryId, name: str
) -> BranchName | None:
    if is_private_branch(name):
        return BranchName(name)
    if not is_execution_id(name):
        return None

    async def ask(after: str) -> BranchPage:
        return await lakefs.branches.list_page(
            repository, STAGING_BRANCH_PREFIX, after, show_hidden=True
        )

    async for page in pages(ask):
        for branch in page.names:
            if branch.endswith(name):
                return branch
    return None
