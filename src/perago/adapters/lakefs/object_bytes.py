"""The bytes of objects, one object after the other: which route, in one piece or in ranges.

Runs in the loop of the transport. Bytes that arrive are compared with the listing before their file
has its name.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from http.client import PARTIAL_CONTENT, REQUESTED_RANGE_NOT_SATISFIABLE
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast, final

from perago.adapters.http import Reply
from perago.adapters.lakefs.block_store import BlockStore, BlockStoreUnusableError
from perago.adapters.lakefs.error_mapping import Operation
from perago.adapters.lakefs.exchange import Lost, Refused
from perago.adapters.lakefs.object_entries import object_entry
from perago.adapters.lakefs.object_files import (
    ArrivingFile,
    LeavingFile,
    OtherChecksumError,
    write_whole,
)
from perago.adapters.lakefs.object_requests import (
    INLINE_BYTES_MAX,
    JSON_BYTES_MAX,
    FailedRequestError,
    ObjectRequests,
    Place,
    RouteChoice,
    TransferConfiguration,
)
from perago.ports.errors import BranchMissingError, ObjectMissingError, RequestRefusedError
from perago.ports.objects import Fetched, FetchOrder, Moved, ObjectEntry, ObjectUpload

LOGGER = logging.getLogger("perago.transfer")

# Up to this size an object is compared in memory and written once, without a temporary name.
WHOLE_BYTES_MAX = 1024 * 1024
# One connection rarely fills a line, so large objects come in ranges side by side, unless there are
# enough of them to fill it.
SPLIT_BYTES_MIN = 32 * 1024 * 1024
RANGE_BYTES = 16 * 1024 * 1024
LARGE_STREAMS_ENOUGH = 8
# Each object would otherwise wait for a connection to a store that is out of reach.
STORE_AVOIDED_SECONDS = 300.0

_PLAIN_TYPE = re.compile(r"(?!multipart/)[\w.+-]+/[\w.+-]+(; *charset=[\w-]+)?", re.ASCII)
_HEADER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_BOUNDARY = "perago-7d1f0c5a93e84b62"

Given = TypeVar("Given")
Result = TypeVar("Result")
# Opens the body of one object, or of the range that the headers ask for.
Read: TypeAlias = Callable[[Mapping[str, str]], Awaitable[AbstractAsyncContextManager[Reply]]]


class _RangeIgnoredError(Exception):
    """A range was asked for and something else was answered."""


@final
class ObjectBytes:
    """Moves objects of one installation."""

    def __init__(self, configuration: TransferConfiguration, requests: ObjectRequests) -> None:
        self._configuration = configuration
        self._requests = requests
        self._store: BlockStore | None = None
        self._store_avoided_until = 0.0
        self.server_signs: bool | None = None  # None until the server is asked

    async def fetch_all(
        self, place: Place, orders: Sequence[FetchOrder], moved: Moved
    ) -> list[Fetched]:
        """Bring all objects down; the first failure ends the others and raises."""
        large = sum(order.entry.size >= SPLIT_BYTES_MIN for order in orders)
        fetch = partial(self._fetch, place, moved, split=large < LARGE_STREAMS_ENOUGH)
        return await self._each(orders, fetch)

    async def store_all(
        self, place: Place, uploads: Sequence[ObjectUpload], moved: Moved
    ) -> list[ObjectEntry]:
        """Write all objects; the first failure ends the others and raises."""
        return await self._each(uploads, partial(self._upload, place, moved))

    async def ask_whether_signed(self) -> bool:
        """Whether the server signs addresses of its block store; asked once."""
        if self.server_signs is None:
            operation = Operation("ask for", "the server's configuration")
            ask = partial(self._requests.ask, "GET", "/config", {})
            found = (await self._requests.repeat(operation, ask)).get("storage_config")
            terms = cast("dict[str, object]", found or {})
            self._store = BlockStore(self._requests, terms)
            self.server_signs = bool(terms.get("pre_sign_support"))
        return self.server_signs

    async def _each(
        self, given: Sequence[Given], work: Callable[[Given], Awaitable[Result]]
    ) -> list[Result]:
        """Do all, as many side by side as may be; a task for each would be too many."""
        results: dict[int, Result] = {}
        left = iter(enumerate(given))

        async def work_on() -> None:
            for number, one in left:
                results[number] = await work(one)

        workers = min(len(given), self._configuration.requests_concurrent_max)
        await all_of(work_on() for _ in range(workers))
        return [results[number] for number in range(len(given))]

    async def _store_for(self, size: int) -> BlockStore | None:
        """The block store if it is the way for an object of this size, else None."""
        choice = self._configuration.route
        if choice is RouteChoice.API:
            return None
        if choice is RouteChoice.PRESIGNED:
            if await self.ask_whether_signed():
                return self._store
            raise RequestRefusedError(
                "presigned transfer was asked for, and this lakeFS's block store does not sign;"
                " set PERAGO_TRANSFER_ROUTE=auto or api"
            )
        if size < self._configuration.presigned_bytes_min or not await self.ask_whether_signed():
            return None
        avoided = asyncio.get_running_loop().time() < self._store_avoided_until
        return None if avoided else self._store

    def _avoid_store(self, why: BlockStoreUnusableError) -> None:
        """Use the server alone for a while, or raise if only the store was allowed."""
        if self._configuration.route is RouteChoice.PRESIGNED:
            raise RequestRefusedError(
                f"the block store cannot be used: {why}; set PERAGO_TRANSFER_ROUTE=auto or api"
            ) from why
        loop = asyncio.get_running_loop()
        self._store_avoided_until = loop.time() + STORE_AVOIDED_SECONDS
        LOGGER.warning(
            "the block store of lakeFS cannot be used, so objects go through lakeFS: %s", why
        )

    async def _fetch(
        self, place: Place, moved: Moved, order: FetchOrder, *, split: bool
    ) -> Fetched:
        store = await self._store_for(order.entry.size)
        if store is not None:
            try:
                read = partial(self._open_stored, store, place, order)
                return await self._fetched(place, order, read, moved, split=split)
            except BlockStoreUnusableError as error:
                self._avoid_store(error)
        read = partial(self._open_served, place, order)
        return await self._fetched(place, order, read, moved, split=split)

    async def _open_served(
        self, place: Place, order: FetchOrder, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Reply]:
        url = self._requests.url(place.objects("refs"), {"path": order.entry.path})
        return self._requests.exchange("GET", url, {**self._requests.credentials, **headers})

    async def _open_stored(
        self, store: BlockStore, place: Place, order: FetchOrder, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Reply]:
        return store.read(await store.address(place, order.entry.path), headers)

    async def _fetched(
        self, place: Place, order: FetchOrder, read: Read, moved: Moved, *, split: bool
    ) -> Fetched:
        download = partial(self._download, place, order, read, split=split)
        try:
            fetched = await download(None)
        except OtherChecksumError as damage:
            if not await self._is_imported(place, order):
                raise
            # An encrypted bucket states 32 digits that are no MD5. Bytes that were damaged on the
            # way would not arrive alike twice.
            fetched = await download(damage.md5)
        moved(order.entry.size, 1)
        return fetched

    async def _download(
        self, place: Place, order: FetchOrder, read: Read, accepted: str | None, *, split: bool
    ) -> Fetched:
        what = f"{place.repository}/{place.ref}/{order.entry.path}"
        operation = Operation("fetch", what, missing=ObjectMissingError)
        place.require(operation)
        if split and order.entry.size >= SPLIT_BYTES_MIN:
            try:
                return await self._in_ranges(operation, order, read, accepted)
            except _RangeIgnoredError:
                pass  # a proxy that knows no ranges; the object is taken whole
        one_piece = self._whole if order.entry.size <= WHOLE_BYTES_MAX else self._streamed
        return await self._requests.repeat(operation, partial(one_piece, order, read, accepted))

    async def _whole(self, order: FetchOrder, read: Read, accepted: str | None) -> Fetched:
        content = bytearray()
        async with await read({}) as reply:
            async for piece in reply.pieces():
                content += piece
                if len(content) > order.entry.size:
                    break  # more than was listed: the comparison says so
        if order.entry.size <= INLINE_BYTES_MAX:
            return write_whole(order, content, accepted)
        return await self._requests.by_hand(write_whole, order, content, accepted)

    async def _streamed(self, order: FetchOrder, read: Read, accepted: str | None) -> Fetched:
        arriving = ArrivingFile(order)
        try:
            async with await read({}) as reply:
                async for piece in reply.pieces():
                    await self._requests.by_hand(arriving.take, piece)
                    if arriving.size > order.entry.size:
                        break
            return await self._requests.by_hand(arriving.finish, accepted)
        finally:
            arriving.close()

    async def _in_ranges(
        self, operation: Operation, order: FetchOrder, read: Read, accepted: str | None
    ) -> Fetched:
        """Several ranges at once; they are digested in order while the next ones arrive."""
        arriving = ArrivingFile(order)
        starts = range(0, order.entry.size, RANGE_BYTES)
        loop = asyncio.get_running_loop()
        landed = {start: loop.create_future() for start in starts}

        async def bring(start: int) -> None:
            attempt = partial(self._range, order, arriving, read, start)
            await self._requests.repeat(operation, attempt)
            landed[start].set_result(None)

        async def digest() -> None:
            for start in starts:
                await landed[start]
                end = min(start + RANGE_BYTES, order.entry.size)
                await self._requests.by_hand(arriving.digest_to, end)

        try:
            await all_of([digest(), self._each(starts, bring)])
            return await self._requests.by_hand(arriving.finish, accepted)
        finally:
            arriving.close()

    async def _range(
        self, order: FetchOrder, arriving: ArrivingFile, read: Read, start: int
    ) -> None:
        end = min(start + RANGE_BYTES, order.entry.size)
        offset = start
        try:
            async with await read({"Range": f"bytes={start}-{end - 1}"}) as reply:
                stated = reply.headers.get("content-range", "")
                if reply.status != PARTIAL_CONTENT or f" {start}-{end - 1}/" not in stated:
                    raise _RangeIgnoredError
                async for piece in reply.pieces():
                    await self._requests.by_hand(arriving.take_at, offset, piece[: end - offset])
                    offset += len(piece)
        except FailedRequestError as error:
            match error.failure:
                case Refused(status) if status == REQUESTED_RANGE_NOT_SATISFIABLE:
                    raise _RangeIgnoredError from error  # shorter than listed: whole, it is damage
                case _:
                    raise
        if offset != end:
            text = f"{offset - start} of {end - start} bytes of a range arrived"
            raise FailedRequestError(Lost(text, broken=True))

    async def _is_imported(self, place: Place, order: FetchOrder) -> bool:
        """Whether lakeFS only links this object: then its checksum is what a store called it.

        lakeFS calculates the MD5 of what is written through it, to `data/` of its namespace. The
        scheme is left out, because a local store answers with the place on its own disk.
        """
        operation = Operation("ask for", order.entry.path, missing=ObjectMissingError)
        where = f"/repositories/{place.repository}"
        ask = partial(self._requests.ask, "GET", where, {})
        namespace = str((await self._requests.repeat(operation, ask))["storage_namespace"])
        query = {"path": order.entry.path}
        ask = partial(self._requests.ask, "GET", f"{place.objects('refs')}/stat", query)
        address = str((await self._requests.repeat(operation, ask))["physical_address"])
        return f"{namespace.partition('://')[2].rstrip('/')}/data/" not in address

    async def _upload(self, place: Place, moved: Moved, upload: ObjectUpload) -> ObjectEntry:
        what = f"{place.repository}/{place.ref}/{upload.path}"
        operation = Operation("store", what, writes=True, missing=BranchMissingError)
        place.require(operation)
        with LeavingFile(upload.source) as file:
            entry = await self._stored(operation, place, upload, file)
            if entry is None:
                attempt = partial(self._send, place, upload, file)
                entry = await self._requests.repeat(operation, attempt)
                entry = await self._described(operation, place, upload, entry)
        moved(file.size, 1)
        return entry

    async def _stored(
        self, operation: Operation, place: Place, upload: ObjectUpload, file: LeavingFile
    ) -> ObjectEntry | None:
        """Write past the server, or give None where that is not the way."""
        store = await self._store_for(file.size)
        if store is None:
            return None
        try:
            return await store.store(operation, place, upload, file)
        except BlockStoreUnusableError as error:
            self._avoid_store(error)
            return None

    async def _send(self, place: Place, upload: ObjectUpload, file: LeavingFile) -> ObjectEntry:
        headers = {f"x-lakefs-meta-{name}": text for name, text in _plain(upload).items()}
        around = (b"", b"")
        if _PLAIN_TYPE.fullmatch(upload.content_type):
            headers["Content-Type"] = upload.content_type
        else:
            headers["Content-Type"] = f"multipart/form-data; boundary={_BOUNDARY}"
            around = _envelope(upload.content_type)
        body = self._requests.outgoing(file, 0, file.size, *around)
        url = self._requests.url(place.objects("branches"), {"path": upload.path})
        headers |= self._requests.credentials
        try:
            async with self._requests.exchange("POST", url, headers, body) as reply:
                answer = await reply.read(JSON_BYTES_MAX)
        except FailedRequestError:
            if body.error is not None:
                raise body.error from None
            raise
        return object_entry(self._requests.document(answer))

    async def _described(
        self, operation: Operation, place: Place, upload: ObjectUpload, entry: ObjectEntry
    ) -> ObjectEntry:
        """Write the metadata that headers cannot carry in a request of its own."""
        if len(_plain(upload)) == len(upload.metadata):
            return entry
        path = f"{place.objects('branches')}/stat/user_metadata"
        content = {"set": dict(upload.metadata)}
        ask = partial(self._requests.ask, "PUT", path, {"path": upload.path}, content)
        await self._requests.repeat(operation, ask)
        return entry._replace(metadata=MappingProxyType(dict(upload.metadata)))


async def all_of(work: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Do all side by side; the first failure ends the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


def _plain(upload: ObjectUpload) -> dict[str, str]:
    """The metadata that headers carry as it is: lakeFS lowers the case of header names."""
    return {
        name: text
        for name, text in upload.metadata.items()
        if _HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(text)
    }


def _envelope(content_type: str) -> tuple[bytes, bytes]:
    """A form around the bytes: the server takes other content types only from there."""
    # A quote or a line break in a type that somebody else wrote would end the header it stands in.
    written = "".join(sign if sign.isprintable() else " " for sign in content_type)
    before = (
        f"--{_BOUNDARY}\r\n"
        'Content-Disposition: form-data; name="content"; filename="content"\r\n'
        f"Content-Type: {written}\r\n\r\n"
    )
    return before.encode(), f"\r\n--{_BOUNDARY}--\r\n".encode()
