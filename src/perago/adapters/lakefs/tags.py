"""Tags over lakefs-sdk.

Knows nothing of what a tag decides.
"""

from typing import final

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.error_mapping import Operation
from perago.domain.logical_execution import CommitId, RepositoryId, TagName
from perago.ports.errors import ReferenceMissingError, TagExistsError
from perago.ports.lakefs import TagPage, TagRecord, Tags


@final
class LakeFSTags(Tags):
    """Tags of one lakeFS installation."""

    def __init__(self, client: LakeFSClient) -> None:
        self._client = client

    async def create(self, repository: RepositoryId, tag: TagName, commit: CommitId) -> None:
        operation = Operation(
            "create tag", f"{repository}/{tag}", writes=True, taken=TagExistsError
        )
        await self._client.ask(
            operation,
            lambda sdk: sdk.tags.create_tag(
                repository, sdk.new_tag(id=tag, ref=commit, force=False)
            ),
        )

    async def read(self, repository: RepositoryId, tag: TagName) -> CommitId | None:
        try:
            found = await self._client.ask(
                Operation("read tag", f"{repository}/{tag}"),
                lambda sdk: sdk.tags.get_tag(repository, tag),
            )
        except ReferenceMissingError:
            return None
        return CommitId(found.commit_id)

    async def list_page(
        self, repository: RepositoryId, prefix: str, after: str = "", amount: int = 1000
    ) -> TagPage:
        page = await self._client.ask(
            Operation("list tags of", repository),
            lambda sdk: sdk.tags.list_tags(repository, prefix=prefix, after=after, amount=amount),
        )
        tags = tuple(TagRecord(TagName(ref.id), CommitId(ref.commit_id)) for ref in page.results)
        return TagPage(tags, more=page.pagination.has_more)

    async def delete(self, repository: RepositoryId, tag: TagName) -> None:
        try:
            await self._client.ask(
                Operation("delete tag", f"{repository}/{tag}", writes=True),
                lambda sdk: sdk.tags.delete_tag(repository, tag, force=False),
            )
        except ReferenceMissingError:
            return
