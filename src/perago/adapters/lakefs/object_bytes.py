"""The bytes of objects, one object after the other: which route, in one piece or in ranges.

Runs in the loop of the transport. Bytes that arrive are compared with the listing before their file
has its name.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass, replace
from functools import partial
from http.client import PARTIAL_CONTENT, REQUESTED_RANGE_NOT_SATISFIABLE
from types import MappingProxyType
from typing import TypeAlias, final

from perago.adapters.http import Reply
from perago.adapters.lakefs.answers import storage_terms, stored_object, text_of
from perago.adapters.lakefs.block_store import BlockStore, BlockStoreUnusableError
from perago.adapters.lakefs.client import (
    INLINE_BYTES_MAX,
    JSON_BYTES_MAX,
    ApiRequest,
    FailedRequestError,
    FileBody,
    LakeFSClient,
    all_of,
    read_answer,
    side_by_side,
)
from perago.adapters.lakefs.configuration import RouteChoice
from perago.adapters.lakefs.errors import Lost, Operation, Refused
from perago.adapters.lakefs.object_files import (
    ArrivingFile,
    LeavingFile,
    OtherChecksumError,
    write_whole,
)
from perago.ports import errors
from perago.ports.objects import Fetched, FetchOrder, Moved, ObjectEntry, ObjectUpload

LOGGER = logging.getLogger("perago.transfer")

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
# Each object would otherwise wait for a connection to a store that is out of reach. After five
# minutes the next object tries it again, so that a store that has come back is used without a
# restart of the worker.
STORE_AVOIDED_SECONDS = 300.0

_PLAIN_TYPE = re.compile(r"(?!multipart/)[\w.+-]+/[\w.+-]+(; *charset=[\w-]+)?", re.ASCII)
_HEADER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_BOUNDARY = "perago-7d1f0c5a93e84b62"

# Opens the body of one object, or of the range that the headers ask for.
Read: TypeAlias = Callable[[Mapping[str, str]], AbstractAsyncContextManager[Reply]]
# The path of a branch or a reference, see `at_branch` and `at_ref`.
RepositoryRef: TypeAlias = tuple[str, ...]


class _RangeIgnoredError(Exception):
    """A range was asked for and something else was answered."""


@final
class ObjectBytes:
    """Moves objects of one installation; all of it runs in the client's loop."""

    def __init__(self, client: LakeFSClient) -> None:
        self._client = client
        self._configuration = client.configuration
        self._store: asyncio.Task[BlockStore | str] | None = None
        self._store_avoided_until = 0.0

    async def fetch_all(
        self, at: RepositoryRef, orders: Sequence[FetchOrder], moved: Moved
    ) -> list[Fetched]:
        """Bring all objects of a reference down; the first failure ends the others and raises."""
        large = sum(order.entry.size >= SPLIT_BYTES_MIN for order in orders)
        streams = -(-LARGE_STREAMS_ENOUGH // max(large, 1))
        fetch = partial(self._fetch, at, moved, streams=streams)
        return await side_by_side(orders, fetch, self._configuration.requests_concurrent_max)

    async def store_all(
        self, at: RepositoryRef, uploads: Sequence[ObjectUpload], moved: Moved
    ) -> list[ObjectEntry]:
        """Write all objects; the first failure ends the others and raises."""
        upload = partial(self._upload, at, moved)
        return await side_by_side(uploads, upload, self._configuration.requests_concurrent_max)

    async def signing_store(self) -> BlockStore | str:
        """The block store if the server signs addresses of it, else why not.

        All objects that need it share one question; a failure is asked again by the next ones. A
        forked child asks for itself, because its parent's loop does not run in it.
        """
        asked, loop = self._store, asyncio.get_running_loop()
        is_of_parent = asked is not None and asked.get_loop() is not loop
        if asked is None or is_of_parent or (asked.done() and asked.exception() is not None):
            asked = self._store = loop.create_task(self._ask_for_store())
        # Who is cancelled while it waits does not cancel the question of the others.
        return await asyncio.shield(asked)

    async def _ask_for_store(self) -> BlockStore | str:
        operation = Operation("ask for", "the server's configuration")
        request = ApiRequest("GET", ("config",))
        try:
            terms = await self._client.insist(operation, request, storage_terms)
        except errors.AccessDeniedError as error:
            why = (
                "the keys may not ask whether the block store of this lakeFS signs (fs:ReadConfig)"
            )
            LOGGER.warning("%s, so objects go through lakeFS: %s", why, error)
            return why
        if not terms.get("pre_sign_support"):
            return "the block store of this lakeFS does not sign"
        only = self._configuration.route is RouteChoice.PRESIGNED
        return BlockStore(self._client, terms, is_only_way=only)

    async def _store_for(self, size: int) -> BlockStore | None:
        """The block store if it is the way for an object of this size, else None."""
        must_sign = self._configuration.route is RouteChoice.PRESIGNED
        is_small = size < self._configuration.presigned_bytes_min
        if self._configuration.route is RouteChoice.API or (is_small and not must_sign):
            return None
        store = await self.signing_store()
        if isinstance(store, str):
            if must_sign:
                text = f"presigned transfer was asked for, and {store}"
                raise errors.RequestRefusedError(f"{text}; set PERAGO_TRANSFER_ROUTE=auto or api")
            return None
        avoided = asyncio.get_running_loop().time() < self._store_avoided_until
        return None if avoided else store

    def _avoid_store(self, why: BlockStoreUnusableError) -> None:
        """Use the server alone for a while, or raise if only the store was allowed."""
        if self._configuration.route is RouteChoice.PRESIGNED:
            raise errors.RequestRefusedError(
                f"the block store cannot be used: {why}; set PERAGO_TRANSFER_ROUTE=auto or api"
            ) from why
        loop = asyncio.get_running_loop()
        self._store_avoided_until = loop.time() + STORE_AVOIDED_SECONDS
        LOGGER.warning(
            "the block store of lakeFS cannot be used, so objects go through lakeFS: %s", why
        )

    async def _fetch(
        self, at: RepositoryRef, moved: Moved, order: FetchOrder, *, streams: int
    ) -> Fetched:
        path, size = order.entry.path, order.entry.size
        request = ApiRequest("GET", (*at, "objects"), {"path": path})
        download = _Download(
            self._client,
            Operation("fetch", f"{at[1]}/{at[3]}/{path}", missing=errors.ObjectMissingError),
            request,
            order,
            partial(self._client.exchange, request),
            streams=streams if size >= SPLIT_BYTES_MIN else 1,
        )
        fetched = None
        store = await self._store_for(size)
        if store is not None:
            try:
                fetched = await replace(download, read=partial(store.read, request)).run()
            except BlockStoreUnusableError as error:
                self._avoid_store(error)
        fetched = fetched or await download.run()
        moved(size, 1)
        return fetched

    async def _upload(self, at: RepositoryRef, moved: Moved, upload: ObjectUpload) -> ObjectEntry:
        what = f"{at[1]}/{at[3]}/{upload.path}"
        operation = Operation("store", what, writes=True, missing=errors.BranchMissingError)
        with closing(LeavingFile(upload.source)) as file:
            entry = None
            store = await self._store_for(file.size)
            if store is not None:
                try:
                    entry = await store.store(operation, at, upload, file)
                except BlockStoreUnusableError as error:
                    self._avoid_store(error)
            if entry is None:
                attempt = partial(self._send, at, upload, file)
                entry = await self._client.repeat(operation, attempt)
                if len(_plain(upload)) < len(upload.metadata):
                    entry = await self._describe(operation, at, upload, entry)
        moved(file.size, 1)
        return entry

    async def _send(
        self, at: RepositoryRef, upload: ObjectUpload, file: LeavingFile
    ) -> ObjectEntry:
        headers = {f"x-lakefs-meta-{name}": text for name, text in _plain(upload).items()}
        around = (b"", b"")
        if _PLAIN_TYPE.fullmatch(upload.content_type):
            headers["Content-Type"] = upload.content_type
        else:
            headers["Content-Type"] = f"multipart/form-data; boundary={_BOUNDARY}"
            around = _envelope(upload.content_type)
        body = FileBody(self._client, file, 0, file.size, around)
        request = ApiRequest("POST", (*at, "objects"), {"path": upload.path})
        async with self._client.exchange(request, headers, body) as reply:
            answer = await reply.read(JSON_BYTES_MAX)
            return read_answer(answer, stored_object)

    async def _describe(
        self, operation: Operation, at: RepositoryRef, upload: ObjectUpload, entry: ObjectEntry
    ) -> ObjectEntry:
        """Write the metadata that headers cannot carry in a request of its own."""
        path, content = (*at, "objects", "stat", "user_metadata"), {"set": dict(upload.metadata)}
        request = ApiRequest("PUT", path, {"path": upload.path}, content)
        await self._client.insist(operation, request, bytes)
        return entry._replace(metadata=MappingProxyType(dict(upload.metadata)))


@dataclass(frozen=True, slots=True)
class _Download:
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


def _plain(upload: ObjectUpload) -> dict[str, str]:
    """The metadata that headers carry as it is: lakeFS lowers the case of header names."""
    return {
        name: text
        for name, text in upload.metadata.items()
        if _HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(text)
    }


def _envelope(content_type: str) -> tuple[bytes, bytes]:
    """A form around the bytes: the server takes other content types only from there."""
    # A quote or a line break in a type that another client wrote would end the header it stands in.
    written = "".join(sign if sign.isprintable() else " " for sign in content_type)
    before = (
        f"--{_BOUNDARY}\r\n"
        'Content-Disposition: form-data; name="content"; filename="content"\r\n'
        f"Content-Type: {written}\r\n\r\n"
    )
    return before.encode(), f"\r\n--{_BOUNDARY}--\r\n".encode()
