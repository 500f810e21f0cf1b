"""Does the input name a repository, a branch and a commit that are there? Asked before the body.

What was found once is remembered for the life of the process: repositories and branches rarely
go away, and the effect itself would notice.
"""

from perago.domain.errors import InputPlaceError, PublicationRefusedError
from perago.domain.references import BranchName, CommitRecord, RepositoryId, WorkspaceReference
from perago.ports.branches import Branches
from perago.ports.commits import Commits
from perago.ports.concurrency import Concurrency
from perago.ports.repositories import Repositories, RepositoryFacts


class KnownPlaces:
    """Repositories and branches that were seen; shared by all attempts of a process."""

    def __init__(self, repositories: Repositories, branches: Branches, commits: Commits) -> None:
        self._repositories = repositories
        self._branches = branches
        self._commits = commits
        self._facts: dict[RepositoryId, RepositoryFacts] = {}
        self._seen: set[tuple[RepositoryId, BranchName]] = set()

    async def check(
        self, workspace: WorkspaceReference, concurrency: Concurrency, *, writes: bool
    ) -> CommitRecord:
        """Raise with the place's name unless the input can be worked on; its commit.

        The three questions are asked side by side; the repository's answer counts first.
        """
        repository = workspace.repository
        facts, _, record = await concurrency.together3(
            self._read_repository(repository),
            self._find_branch(repository, workspace.branch),
            self._commits.read(repository, workspace.ref),
        )
        if writes and facts.read_only:
            text = f"repository {repository} is read-only; nothing can be published"
            raise PublicationRefusedError(text, code="PRG-L011")
        if record.commit != workspace.ref:  # a branch or half an id names another one tomorrow
            raise InputPlaceError(
                f"workspace ref {workspace.ref} is not a commit id; it names {record.commit} now"
            )
        return record

    async def _read_repository(self, repository: RepositoryId) -> RepositoryFacts:
        if repository not in self._facts:
            self._facts[repository] = await self._repositories.read(repository)
        return self._facts[repository]

    async def _find_branch(self, repository: RepositoryId, branch: BranchName) -> None:
        if (repository, branch) not in self._seen:
            await self._branches.head(repository, branch)
            self._seen.add((repository, branch))
