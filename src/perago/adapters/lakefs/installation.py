"""One lakeFS as the container takes it: its ports over one client; a repository is only read.

Decides nothing.
"""

import json
from typing import final

from perago.adapters.lakefs.branches import LakeFSBranches, LakeFSTags
from perago.adapters.lakefs.client import ApiRequest, LakeFSClient
from perago.adapters.lakefs.commits import LakeFSCommits
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.errors import Operation
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.domain.logical_execution import BranchName, RepositoryId
from perago.ports.errors import RepositoryMissingError
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import Repositories, RepositoryFacts, RepositoryPage


@final
class LakeFSRepositories(Repositories):
    """Repositories of one lakeFS installation."""

    def __init__(self, client: LakeFSClient) -> None:
        self._client = client

    async def read(self, repository: RepositoryId) -> RepositoryFacts:
        return await self._client.ask(
            Operation("read repository", repository, missing=RepositoryMissingError),
            ApiRequest("GET", ("repositories", repository)),
            _facts,
        )

    async def list_page(self, after: str = "", amount: int = 1000) -> RepositoryPage:
        query = {"after": after, "amount": str(amount)}
        return await self._client.ask(
            Operation("list repositories", ""),
            ApiRequest("GET", ("repositories",), query),
            _repository_page,
        )


def open_lakefs(configuration: LakeFSConfiguration) -> LakeFSInstallation:
    """The ports of one lakeFS; nothing is asked of it yet."""
    client = LakeFSClient(configuration)

    async def close() -> None:
        client.close()

    return LakeFSInstallation(
        branches=LakeFSBranches(client),
        commits=LakeFSCommits(client),
        tags=LakeFSTags(client),
        objects=LakeFSObjects(client),
        repositories=LakeFSRepositories(client),
        close=close,
    )


def _facts(body: bytes) -> RepositoryFacts:
    found = json.loads(body)
    return RepositoryFacts(
        repository=RepositoryId(found["id"]),
        default_branch=BranchName(found["default_branch"]),
        storage_namespace=found["storage_namespace"],
        read_only=bool(found.get("read_only")),
    )


def _repository_page(body: bytes) -> RepositoryPage:
    page = json.loads(body)
    names = tuple(RepositoryId(each["id"]) for each in page["results"])
    return RepositoryPage(names, more=page["pagination"]["has_more"])
