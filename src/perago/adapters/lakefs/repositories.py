"""Repositories over lakefs-sdk.

Reads facts; judges none.
"""

from typing import final

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.error_mapping import Operation
from perago.domain.logical_execution import BranchName, RepositoryId
from perago.ports.errors import RepositoryMissingError
from perago.ports.lakefs import Repositories, RepositoryFacts, RepositoryPage


@final
class LakeFSRepositories(Repositories):
    """Repositories of one lakeFS installation."""

    def __init__(self, client: LakeFSClient) -> None:
        self._client = client

    async def read(self, repository: RepositoryId) -> RepositoryFacts:
        found = await self._client.ask(
            Operation("read repository", repository, missing=RepositoryMissingError),
            lambda sdk: sdk.repositories.get_repository(repository),
        )
        return RepositoryFacts(
            repository=RepositoryId(found.id),
            default_branch=BranchName(found.default_branch),
            storage_namespace=found.storage_namespace,
            read_only=bool(found.read_only),
        )

    async def list_page(self, after: str = "", amount: int = 1000) -> RepositoryPage:
        page = await self._client.ask(
            Operation("list repositories", ""),
            lambda sdk: sdk.repositories.list_repositories(after=after, amount=amount),
        )
        names = tuple(RepositoryId(each.id) for each in page.results)
        return RepositoryPage(names, more=page.pagination.has_more)
