"""Objects of the in-memory lakeFS, as one worker reaches them.

Knows the port and the operations. A worker's own files are read before the request leaves and
written after it is answered: a request that lands late brings the bytes it left with.
"""

import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import final

from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.object_tree import StoredObject
from perago.adapters.memory.storing import delete_objects, read_object, write_object
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.logical_execution import BranchName, RepositoryId
from perago.ports.objects import (
    LIST_AMOUNT_MAX,
    ObjectEntry,
    ObjectPage,
    Objects,
    ObjectUpload,
)


@final
class MemoryObjects(Objects):
    """Objects in memory."""

    def __init__(self, lakefs: MemoryLakeFS, handle: WorkerHandle) -> None:
        self._lakefs = lakefs
        self._handle = handle

    async def list_page(
        self,
        repository: RepositoryId,
        ref: str,
        *,
        prefix: str,
        after: str = "",
        amount: int = LIST_AMOUNT_MAX,
    ) -> ObjectPage:
        def page() -> ObjectPage:
            follow = self._lakefs.repository(repository).tree_of(ref).under(prefix, after)
            entries = tuple(stored.entry(path) for path, stored in islice(follow, amount))
            return ObjectPage(entries, more=next(follow, None) is not None)

        return await self._handle.ask("objects.list_page", page)

    async def read(self, repository: RepositoryId, ref: str, path: str) -> bytes:
        return await self._handle.ask(
            "objects.read", lambda: read_object(self._lakefs, repository, ref, path).content
        )

    async def download(self, repository: RepositoryId, ref: str, path: str, target: Path) -> None:
        held = await self._handle.ask(
            "objects.download", lambda: read_object(self._lakefs, repository, ref, path).held
        )
        _write_new_file(target, held)

    async def upload(
        self, repository: RepositoryId, branch: BranchName, upload: ObjectUpload
    ) -> ObjectEntry:
        content = self._lakefs.take(upload.source)

        def write() -> StoredObject:
            stored = self._lakefs.new_object(
                content, content_type=upload.content_type, metadata=upload.metadata
            )
            return write_object(self._lakefs, repository, branch, upload.path, stored)

        stored = await self._handle.perform("objects.upload", write)
        return stored.entry(upload.path)

    async def delete_many(
        self, repository: RepositoryId, branch: BranchName, paths: Sequence[str]
    ) -> None:
        await self._handle.perform(
            "objects.delete_many",
            lambda: delete_objects(self._lakefs, repository, branch, paths),
        )

    async def copy(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        source_ref: str,
        source_path: str,
        target_path: str,
    ) -> ObjectEntry:
        def duplicate() -> StoredObject:
            self._lakefs.repository(repository).branch(branch)
            source = read_object(self._lakefs, repository, source_ref, source_path)
            stored = self._lakefs.new_object(
                source.held, content_type=source.content_type, metadata=source.metadata
            )
            return write_object(self._lakefs, repository, branch, target_path, stored)

        stored = await self._handle.perform("objects.copy", duplicate)
        return stored.entry(target_path)


def _write_new_file(path: Path, held: bytes | Path) -> None:
    with path.open("xb") as file:
        if isinstance(held, Path):
            with held.open("rb") as source:
                shutil.copyfileobj(source, file)
        else:
            file.write(held)
