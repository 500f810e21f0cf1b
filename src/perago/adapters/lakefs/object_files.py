"""One object between a server and a local file: how it is read, fetched, compared and written.

A file that arrives has a temporary name until all its bytes are there and are those that lakeFS
listed. Errors of the disk never look like lost answers. Files block, so large pieces of them are
read and written beside the loop.
"""

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from http.client import PARTIAL_CONTENT, REQUESTED_RANGE_NOT_SATISFIABLE
from pathlib import Path
from threading import Lock
from typing import TypeAlias, final

from perago.adapters import http
from perago.adapters.lakefs.answers import Lost, Operation, Refused, text_of
from perago.adapters.lakefs.client import (
    ApiRequest,
    FailedRequestError,
    LakeFSClient,
    all_of,
    side_by_side,
)
from perago.domain.paths import md5_of_checksum
from perago.ports.errors import DamagedObjectError, LocalDiskError, disk_errors
from perago.ports.objects import Fetched, FetchOrder, stamp_of

PART_PREFIX = ".perago-part-"
# hashlib lets other threads run while it digests a piece of more than 2 KiB. Larger ones would only
# be memory, of each of the threads that digest (HANDS_MAX in `client`).
DIGEST_BYTES = 1024 * 1024
# Smaller reads and writes are done in the loop: handing them to a thread costs as much as they do.
INLINE_BYTES_MAX = 64 * 1024
# Up to this size an object is compared in memory and written once, without a temporary name. With
# 48 requests under way (REQUESTS_CONCURRENT_MAX) that is at most 48 MiB.
WHOLE_BYTES_MAX = 1024 * 1024
# One connection rarely fills a line, so large objects come in ranges side by side, unless there are
# enough of them to fill it. Below four ranges (RANGE_BYTES) there is little to do side by side.
SPLIT_BYTES_MIN = 32 * 1024 * 1024
# MD5 goes through an object in order, so it waits for the oldest range, and ranges that arrive side
# by side arrive together. With 48 of 16 MiB in flight it began when 256 MiB were all there. Smaller
# ranges cost the server more requests, and fewer streams do not fill a line with a long way.
RANGE_BYTES = 8 * 1024 * 1024
LARGE_STREAMS_ENOUGH = 8  # of RANGE_BYTES: 64 MiB are under way (ADR 0006)
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# A process that a task left behind may have put a FIFO or a link in the place of its output.
_SOURCE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


# Opens the body of one object, or of the range that the headers ask for.
Read: TypeAlias = Callable[[Mapping[str, str]], AbstractAsyncContextManager[http.Reply]]


class _RangeIgnoredError(Exception):
    """A range was asked for and something else was answered."""


class OtherChecksumError(DamagedObjectError):
    """As many bytes as were listed arrived, with another MD5 than the listed checksum."""

    def __init__(self, text: str, md5: str) -> None:
        super().__init__(text)
        self.md5 = md5


def write_whole(
    order: FetchOrder, content: bytes | bytearray, accepted: str | None = None
) -> Fetched:
    """Write a small object that is in memory; on a refusal no file is left."""
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    _verify(order, len(content), md5, accepted)
    try:
        descriptor = os.open(order.where, os.O_WRONLY | _NEW_FILE, 0o666)
        try:
            _write_all(descriptor, memoryview(content), 0)
            return Fetched(order, md5, stamp_of(os.fstat(descriptor)))
        except BaseException:
            os.unlink(order.where)  # noqa: PTH108 - the name may be text
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LocalDiskError.of(order.where, error) from error


@final
class ArrivingFile:
    """One object on its way to the disk, digested in order.

    The lock keeps the file open under the thread that writes to it: the transfer may be given up
    at any moment, and a descriptor that is closed meanwhile may already be that of another file.
    """

    def __init__(self, order: FetchOrder) -> None:
        self._order = order
        self._part = order.target.with_name(f"{PART_PREFIX}{os.getpid()}-{id(self):x}")
        self._digest = hashlib.md5(usedforsecurity=False)
        self.size = 0
        self._lock = Lock()
        with disk_errors(self._part):
            self._descriptor = os.open(self._part, os.O_RDWR | _NEW_FILE, 0o666)

    def take(self, piece: bytes) -> None:
        """Append a piece and digest it."""
        self.take_at(self.size, piece)
        self.size += len(piece)
        self._digest.update(piece)

    def take_at(self, offset: int, piece: bytes) -> None:
        """Write a piece of a range; it is digested when all before it is."""
        with self._lock, disk_errors(self._part):
            _write_all(self._descriptor, memoryview(piece), offset)

    def digest_to(self, end: int) -> None:
        """Digest what has arrived without a gap."""
        while self.size < end:
            wanted = min(DIGEST_BYTES, end - self.size)
            with self._lock, disk_errors(self._part):
                piece = os.pread(self._descriptor, wanted, self.size)
            if not piece:
                return  # another process cut the file; the digest will say so
            self._digest.update(piece)
            self.size += len(piece)

    def finish(self, accepted: str | None) -> Fetched:
        """Give the file its name if its bytes are the listed ones, or have the accepted MD5."""
        with self._lock:
            md5 = self._digest.hexdigest()
            _verify(self._order, self.size, md5, accepted)
            with disk_errors(self._order.where):
                self._part.rename(self._order.target)
                # After the rename, because it changes the ctime, which is part of the stamp.
                return Fetched(self._order, md5, stamp_of(os.fstat(self._descriptor)))

    def close(self) -> None:
        """Close the file, and remove it if it has not got its name."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
                with suppress(OSError):
                    self._part.unlink(missing_ok=True)


@final
class LeavingFile:
    """One local file as it was when it was opened; one that changes its size is an error."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with disk_errors(path):
            self._descriptor = os.open(path, _SOURCE)
        status = os.fstat(self._descriptor)
        self.size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            os.close(self._descriptor)
            raise LocalDiskError(f"{path}: expected a regular file")

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """Read exactly so many bytes."""
        with disk_errors(self._path):
            piece = os.pread(self._descriptor, length, offset)
        if len(piece) < length:
            raise LocalDiskError(
                f"{self._path} became shorter while it was uploaded: expected {self.size} bytes,"
                f" found {offset + len(piece)}; nothing was published;"
                " a process of the task may still write to it"
            )
        return piece

    def outgoing(
        self,
        client: LakeFSClient,
        start: int,
        length: int,
        around: tuple[bytes, bytes] = (b"", b""),
    ) -> http.Outgoing:
        """A stretch of it as a body, with something around it; read as it is sent."""

        async def pieces() -> AsyncIterator[bytes]:
            before, behind = around
            if before:
                yield before
            end = start + length
            for offset in range(start, end, http.PIECE_BYTES):
                stretch = offset, min(http.PIECE_BYTES, end - offset)
                if length <= INLINE_BYTES_MAX:
                    yield self.read(*stretch)
                else:
                    yield await client.by_hand(self.read, *stretch)
            if behind:
                yield behind

        return http.Outgoing(pieces(), length + sum(map(len, around)))

    def digest(self, start: int, length: int, *updates: Callable[[bytes], object]) -> None:
        """Give a stretch of it to each digest."""
        for offset in range(start, start + length, DIGEST_BYTES):
            piece = self.read(offset, min(DIGEST_BYTES, start + length - offset))
            for update in updates:
                update(piece)


@dataclass(frozen=True, slots=True)
class Download:
    """One object on its way down, by one route; `read` opens what `request` stands for."""

    client: LakeFSClient
    operation: Operation
    request: ApiRequest
    order: FetchOrder
    read: Read
    streams: int  # as many ranges at once; with one the object comes in one piece

    async def run(self) -> Fetched:
        """Bring the object; what is imported may be accepted with another MD5 than was listed."""
        try:
            return await self._take(None)
        except OtherChecksumError as damage:
            if not await self._is_imported():
                raise
            # An encrypted bucket states 32 digits that are no MD5. Bytes that were damaged on the
            # way would not arrive alike twice.
            return await self._take(damage.md5)

    async def _take(self, accepted: str | None) -> Fetched:
        if self.streams > 1:
            try:
                return await self._ranges(accepted)
            except _RangeIgnoredError:
                pass  # a proxy that knows no ranges; the object is taken whole
        one_piece = self._whole if self.order.entry.size <= WHOLE_BYTES_MAX else self._streamed
        return await self.client.repeat(self.operation, partial(one_piece, accepted))

    async def _whole(self, accepted: str | None) -> Fetched:
        content, size = bytearray(), self.order.entry.size
        async with self.read({}) as reply:
            async for piece in reply.pieces():
                content += piece
                if len(content) > size:
                    break  # more than was listed: the comparison says so
        if size <= INLINE_BYTES_MAX:
            return write_whole(self.order, content, accepted)
        return await self.client.by_hand(write_whole, self.order, content, accepted)

    async def _streamed(self, accepted: str | None) -> Fetched:
        with closing(ArrivingFile(self.order)) as arriving:
            async with self.read({}) as reply:
                async for piece in reply.pieces():
                    await self.client.by_hand(arriving.take, piece)
                    if arriving.size > self.order.entry.size:
                        break
            return await self.client.by_hand(arriving.finish, accepted)

    async def _ranges(self, accepted: str | None) -> Fetched:
        """Several ranges at once; they are digested in order while the next ones arrive."""
        arriving = ArrivingFile(self.order)
        starts = range(0, self.order.entry.size, RANGE_BYTES)
        loop = asyncio.get_running_loop()
        landed = {start: loop.create_future() for start in starts}

        async def bring(start: int) -> None:
            await self.client.repeat(self.operation, partial(self._range, arriving, start))
            landed[start].set_result(None)

        async def digest() -> None:
            for start in starts:
                await landed[start]
                end = min(start + RANGE_BYTES, self.order.entry.size)
                await self.client.by_hand(arriving.digest_to, end)

        with closing(arriving):
            await all_of([digest(), side_by_side(starts, bring, self.streams)])
            return await self.client.by_hand(arriving.finish, accepted)

    async def _range(self, arriving: ArrivingFile, start: int) -> None:
        end = min(start + RANGE_BYTES, self.order.entry.size)
        offset = start
        try:
            async with self.read({"Range": f"bytes={start}-{end - 1}"}) as reply:
                stated = reply.headers.get("content-range", "")
                if reply.status != PARTIAL_CONTENT or f" {start}-{end - 1}/" not in stated:
                    raise _RangeIgnoredError
                async for piece in reply.pieces():
                    await self.client.by_hand(arriving.take_at, offset, piece[: end - offset])
                    offset += len(piece)
        except FailedRequestError as error:
            failure = error.failure
            if isinstance(failure, Refused) and failure.status == REQUESTED_RANGE_NOT_SATISFIABLE:
                raise _RangeIgnoredError from error  # shorter than listed: whole, it is damage
            raise
        if offset != end:
            text = f"{offset - start} of {end - start} bytes of a range arrived"
            raise FailedRequestError(Lost(text, broken=True))

    async def _is_imported(self) -> bool:
        """Whether lakeFS only links this object: then its checksum is what a store called it.

        lakeFS calculates the MD5 of what is written through it, to `data/` of its namespace. The
        scheme is left out, because a local store answers with the place on its own disk.
        """
        path = self.request.path
        repository, stat = ApiRequest("GET", path[:2]), replace(self.request, path=(*path, "stat"))
        insist = partial(self.client.insist, self.operation)
        namespace: str = await insist(repository, text_of("storage_namespace"))
        address: str = await insist(stat, text_of("physical_address"))
        return f"{namespace.partition('://')[2].rstrip('/')}/data/" not in address


def _verify(order: FetchOrder, size: int, md5: str, accepted: str | None) -> None:
    """Raise unless the bytes are those that were listed."""
    entry = order.entry
    expected = md5_of_checksum(entry.checksum) or md5
    if size == entry.size and md5 in {expected, accepted}:
        return
    text = (
        f"{entry.path} arrived damaged: expected {entry.size} bytes with MD5"
        f" {expected}, found {size} bytes with MD5 {md5}; nothing was used"
    )
    raise OtherChecksumError(text, md5) if size == entry.size else DamagedObjectError(text)


def _write_all(descriptor: int, content: memoryview, offset: int) -> None:
    while content:
        count = os.pwrite(descriptor, content, offset)
        content, offset = content[count:], offset + count
