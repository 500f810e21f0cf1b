"""Bulk transfer over the objects port, for a lakeFS that has no other way: the one in memory.

The kit moves the objects of a real lakeFS in this way too, because it injects faults between
the calls of a port.
"""

import hashlib
import os
from collections.abc import Sequence
from functools import partial
from typing import final

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
    stamp_of,
    uncounted,
)
from perago.ports.system import Concurrency

# Only a real lakeFS behind the port takes time, and one worker of it asks. One by one, the files of
# a test would each wait for a round trip.
AT_ONCE = 16


@final
class MemoryTransport(ObjectTransport):
    """Moves objects one by one, a few at a time."""

    def __init__(self, objects: Objects, concurrency: Concurrency) -> None:
        self._objects = objects
        self._concurrency = concurrency

    async def fetch(
        self,
        repository: RepositoryId,
        ref: str,
        orders: Sequence[FetchOrder],
        moved: Moved = uncounted,
    ) -> Sequence[Fetched]:
        async def fetch_one(order: FetchOrder) -> Fetched:
            try:
                await self._objects.download(repository, ref, order.entry.path, order.target)
                fetched = _checked(order)
            except OSError as error:
                raise LocalDiskError.of(order.where, error) from error
            moved(order.entry.size, 1)
            return fetched

        return await self._concurrency.each(orders, fetch_one, at_most=AT_ONCE)

    async def store(
        self,
        repository: RepositoryId,
        branch: BranchName,
        uploads: Sequence[ObjectUpload],
        moved: Moved = uncounted,
    ) -> Sequence[ObjectEntry]:
        async def store_one(upload: ObjectUpload) -> ObjectEntry:
            if not upload.source.is_file():
                raise LocalDiskError(f"{upload.source} cannot be read: no such file")
            entry = await self._objects.upload(repository, branch, upload)
            moved(entry.size, 1)
            return entry

        return await self._concurrency.each(uploads, store_one, at_most=AT_ONCE)


def _checked(order: FetchOrder) -> Fetched:
    with order.target.open("rb", buffering=0) as file:
        md5 = hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
        stamp = stamp_of(os.fstat(file.fileno()))
    expected = md5_of_checksum(order.entry.checksum) or md5
    if (stamp[0], md5) == (order.entry.size, expected):
        return Fetched(order, md5, stamp)
    order.target.unlink(missing_ok=True)
    raise DamagedObjectError(
        f"{order.entry.path} arrived damaged: expected {order.entry.size} bytes with MD5"
        f" {expected}, found {stamp[0]} bytes with MD5 {md5}; nothing was used"
    )
