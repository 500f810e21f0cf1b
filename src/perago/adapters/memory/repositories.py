"""Repositories of the in-memory lakeFS, as one worker reaches them.

Knows the port; creating a repository is a test's business (`repository_builder.py`).
"""

from itertools import islice
from typing import final

from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.logical_execution import RepositoryId
from perago.ports.lakefs import Repositories, RepositoryFacts, RepositoryPage


@final
class MemoryRepositories(Repositories):
    """Repositories in memory."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle) -> None:
        self._lakefs = lakefs
        self._handle = handle

    async def read(self, repository: RepositoryId) -> RepositoryFacts:
        def facts() -> RepositoryFacts:
            state = self._lakefs.repository(repository)
            return RepositoryFacts(
                repository=repository,
                default_branch=state.default_branch,
                storage_namespace=f"mem://{repository}",
                read_only=state.read_only,
            )

        return await self._handle.ask("repositories.read", facts)

    async def list_page(self, after: str = "", amount: int = 1000) -> RepositoryPage:
        def page() -> RepositoryPage:
            follow = (name for name in sorted(self._lakefs.repositories) if name > after)
            names = tuple(islice(follow, amount))
            return RepositoryPage(names, more=next(follow, None) is not None)

        return await self._handle.ask("repositories.list_page", page)
