"""Tags of the in-memory lakeFS, as one worker reaches them.

Knows the port and the operations; decides nothing.
"""

from itertools import islice
from typing import final

from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.naming import create_tag, delete_tag
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.logical_execution import CommitId, RepositoryId, TagName
from perago.ports.lakefs import TagPage, TagRecord, Tags


@final
class MemoryTags(Tags):
    """Tags in memory."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle) -> None:
        self._lakefs = lakefs
        self._handle = handle

    async def create(self, repository: RepositoryId, tag: TagName, commit: CommitId) -> None:
        await self._handle.perform(
            "tags.create", lambda: create_tag(self._lakefs, repository, tag, commit)
        )

    async def read(self, repository: RepositoryId, tag: TagName) -> CommitId | None:
        return await self._handle.ask(
            "tags.read", lambda: self._lakefs.repository(repository).tags.get(tag)
        )

    async def list_page(
        self, repository: RepositoryId, prefix: str, after: str = "", amount: int = 1000
    ) -> TagPage:
        def page() -> TagPage:
            tags = self._lakefs.repository(repository).tags
            follow = (name for name in sorted(tags) if name.startswith(prefix) and name > after)
            records = tuple(TagRecord(name, tags[name]) for name in islice(follow, amount))
            return TagPage(records, more=next(follow, None) is not None)

        return await self._handle.ask("tags.list_page", page)

    async def delete(self, repository: RepositoryId, tag: TagName) -> None:
        await self._handle.perform("tags.delete", lambda: delete_tag(self._lakefs, repository, tag))
