"""What a lakeFS contract test may touch: the five ports, and set-up that no port offers.

Says nothing of which lakeFS answers; whoever tests an adapter implements it.
"""

from collections.abc import Mapping
from typing import Protocol

from perago.domain.references import NO_METADATA, BranchName, CommitId, RepositoryId
from perago.ports.branches import Branches
from perago.ports.commits import Commits
from perago.ports.objects import DEFAULT_CONTENT_TYPE, Objects
from perago.ports.repositories import Repositories
from perago.ports.tags import Tags

MAIN = BranchName("main")
WALK_PAGE = 50
"""Commits a walk may read at once here, so that a law about pages needs no thousand commits."""


class LakeFSWorld(Protocol):
    """One lakeFS with its actions switched on.

    Set-up verbs act at once: when one returns, every later call of a port sees its effect.
    """

    @property
    def branches(self) -> Branches:
        """The branches port of one worker."""
        ...

    @property
    def commits(self) -> Commits:
        """The commits port of the same worker."""
        ...

    @property
    def tags(self) -> Tags:
        """The tags port of the same worker."""
        ...

    @property
    def objects(self) -> Objects:
        """The objects port of the same worker."""
        ...

    @property
    def repositories(self) -> Repositories:
        """The repositories port of the same worker."""
        ...

    async def create_repository(self, *, read_only: bool = False) -> RepositoryId:
        """A new repository of a unique name; its default branch is `main`."""
        ...

    async def write(
        self,
        repository: RepositoryId,
        branch: BranchName,
        path: str,
        content: bytes,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> None:
        """Write one object and leave it uncommitted."""
        ...

    async def commit_files(
        self,
        repository: RepositoryId,
        branch: BranchName,
        files: Mapping[str, bytes | None],
        *,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> CommitId:
        """Write files (None deletes one) and commit exactly them on the branch."""
        ...

    async def commit_unchecked(
        self, repository: RepositoryId, branch: BranchName, files: Mapping[str, bytes]
    ) -> CommitId:
        """Commit action files that the server would refuse to commit, because they are broken.

        A real server loads the action files of the branch before it commits. It keeps the list of
        them for some seconds, so that an (empty) commit, then the files, then a second commit at
        once gets them in.
        """
        ...

    async def protect(self, repository: RepositoryId, pattern: str) -> None:
        """Protect branches by name pattern; returns when the server enforces it."""
        ...

    async def merge_keeping_both_parents(
        self, repository: RepositoryId, source: str, target: BranchName
    ) -> CommitId:
        """Merge without squash: the new commit's parents are the target's head and the source."""
        ...

    def unique_name(self, prefix: str) -> str:
        """A name that no other test uses, valid for branches and tags."""
        ...
