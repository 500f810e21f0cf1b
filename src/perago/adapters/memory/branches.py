"""Branches of the in-memory lakeFS, as one worker reaches them.

Knows the port and the operations; a lost answer of an effect on a branch is a value here.
"""

from itertools import islice
from typing import final

from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.merging import merge_into_branch
from perago.adapters.memory.naming import create_branch, delete_branch, relocate_branch
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.logical_execution import BranchName, CommitId, CommitRecord, RepositoryId
from perago.domain.outcome import MergeAnswer, NoAnswer, RelocationAnswer
from perago.ports.errors import OutcomeUnknownError
from perago.ports.lakefs import Branches, BranchPage, MergeRequest


@final
class MemoryBranches(Branches):
    """Branches in memory."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle) -> None:
        self._lakefs = lakefs
        self._handle = handle

    async def head(self, repository: RepositoryId, branch: BranchName) -> CommitRecord:
        return await self._handle.ask(
            "branches.head", lambda: self._lakefs.repository(repository).branch(branch).head.record
        )

    async def create(self, repository: RepositoryId, branch: BranchName, source: CommitId) -> None:
        await self._handle.perform(
            "branches.create", lambda: create_branch(self._lakefs, repository, branch, source)
        )

    async def delete(self, repository: RepositoryId, branch: BranchName) -> None:
        await self._handle.perform(
            "branches.delete", lambda: delete_branch(self._lakefs, repository, branch)
        )

    async def list_page(
        self, repository: RepositoryId, prefix: str, after: str = "", amount: int = 1000
    ) -> BranchPage:
        def page() -> BranchPage:
            branches = self._lakefs.repository(repository).branches
            follow = (name for name in sorted(branches) if name.startswith(prefix) and name > after)
            names = tuple(islice(follow, amount))
            heads = tuple(branches[name].head.id for name in names)
            return BranchPage(names, heads, more=next(follow, None) is not None)

        return await self._handle.ask("branches.list_page", page)

    async def merge(self, request: MergeRequest) -> MergeAnswer:
        try:
            return await self._handle.perform(
                "branches.merge", lambda: merge_into_branch(self._lakefs, request)
            )
        except OutcomeUnknownError as lost:
            return NoAnswer(str(lost))

    async def relocate(
        self,
        repository: RepositoryId,
        branch: BranchName,
        to: CommitId,
        *,
        timeout_seconds: float = 60.0,  # noqa: ARG002  nothing takes time in memory
    ) -> RelocationAnswer:
        try:
            return await self._handle.perform(
                "branches.relocate", lambda: relocate_branch(self._lakefs, repository, branch, to)
            )
        except OutcomeUnknownError as lost:
            return NoAnswer(str(lost))

    async def is_protected(self, repository: RepositoryId, branch: BranchName) -> bool:
        return await self._handle.ask(
            "branches.is_protected",
            lambda: self._lakefs.repository(repository).is_protected(branch),
        )
