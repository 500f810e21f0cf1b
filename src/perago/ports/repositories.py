"""Repositories: what has to be known of one before anything in it is trusted."""

from dataclasses import dataclass
from typing import Protocol

from perago.domain.references import BranchName, RepositoryId


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """What lakeFS says of a repository."""

    repository: RepositoryId
    default_branch: BranchName
    storage_namespace: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class RepositoryPage:
    """One page of repository names in order; `more` says that names follow the last one."""

    names: tuple[RepositoryId, ...]
    more: bool


class Repositories(Protocol):
    """Repositories of one lakeFS installation.

    Laws (tests/contract/test_repositories.py has one test for each, by name):

    R1 read_names_the_default_branch: a repository is read with its default branch.
    R2 unknown_repository: raises RepositoryMissingError.
    R3 read_only_is_said: a read-only repository says so.
    R4 pages_name_every_repository_once: in order, each page after the last name of the one before.
    """

    async def read(self, repository: RepositoryId) -> RepositoryFacts:
        """Read one repository."""
        ...

    async def list_page(self, after: str = "", amount: int = 1000) -> RepositoryPage:
        """One page of the repositories that this worker may see."""
        ...
