"""Bulk transfer over the plain objects port: the route that every installation has."""

from collections.abc import Sequence
from typing import final

from perago.adapters.workspace.disk import disk_errors, md5_of_file
from perago.domain.logical_execution import BranchName, RepositoryId
from perago.domain.paths import md5_of_checksum
from perago.ports.errors import DamagedObjectError, LocalDiskError
from perago.ports.objects import (
    Fetched,
    FetchOrder,
    Moved,
    ObjectEntry,
    Objects,
    ObjectTransport,
    ObjectUpload,
    nobody_counts,
)
from perago.ports.system import Concurrency

AT_ONCE = 16


@final
class PortTransport(ObjectTransport):
    """Moves objects one by one a few at a time."""

    def __init__(
        self, objects: Objects, concurrency: Concurrency, *, at_most: int = AT_ONCE
    ) -> None:
        self._objects = objects
        self._concurrency = concurrency
        self._at_most = at_most

    @property
    def route(self) -> str:
        return "objects port"

    async def fetch(
        self,
        repository: RepositoryId,
        ref: str,
        orders: Sequence[FetchOrder],
        moved: Moved = nobody_counts,
    ) -> Sequence[Fetched]:
        async def fetch_one(order: FetchOrder) -> Fetched:
            with disk_errors(order.target):
                await self._objects.download(repository, ref, order.entry.path, order.target)
            fetched = await self._concurrency.blocking(lambda: _checked(order))
            moved(order.entry.size, 1)
            return fetched

        return await self._concurrency.each(orders, fetch_one, at_most=self._at_most)

    async def store(
        self,
        repository: RepositoryId,
        branch: BranchName,
        uploads: Sequence[ObjectUpload],
        moved: Moved = nobody_counts,
    ) -> Sequence[ObjectEntry]:
        async def store_one(upload: ObjectUpload) -> ObjectEntry:
            if not await self._concurrency.blocking(upload.source.is_file):
                raise LocalDiskError(f"{upload.source} cannot be read: no such file")
            entry = await self._objects.upload(repository, branch, upload)
            moved(entry.size, 1)
            return entry

        return await self._concurrency.each(uploads, store_one, at_most=self._at_most)


def _checked(order: FetchOrder) -> Fetched:
    with disk_errors(order.target):
        size = order.target.stat().st_size
        md5 = md5_of_file(order.target)
    expected = md5_of_checksum(order.entry.checksum) or md5
    if (size, md5) == (order.entry.size, expected):
        return Fetched(order, md5)
    order.target.unlink(missing_ok=True)
    raise DamagedObjectError(
        f"{order.entry.path} arrived damaged: expected {order.entry.size} bytes with MD5"
        f" {expected}, found {size} bytes with MD5 {md5}; nothing was used"
    )
