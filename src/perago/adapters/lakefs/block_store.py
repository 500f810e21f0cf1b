"""Objects past the server: lakeFS signs addresses of its block store, and the bytes go there.

An address is asked for when it is used, never earlier, because it lives for minutes. What a store
calls an ETag says nothing about the bytes: stores with managed keys or parts state other texts.
Each body carries its Content-MD5 instead, and the store refuses other bytes.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import final

from perago.adapters.http import Reply
from perago.adapters.lakefs.answers import Lost, NotSent, Operation, Refused, stored_object, text_of
from perago.adapters.lakefs.client import (
    JSON_BYTES_MAX,
    ApiRequest,
    FailedRequestError,
    LakeFSClient,
    side_by_side,
)
from perago.adapters.lakefs.object_files import LeavingFile
from perago.ports.errors import OutcomeUnknownError
from perago.ports.objects import ObjectEntry, ObjectUpload

# Each part costs a request for its address, and all bytes a second MD5. Smaller objects are sent as
# a whole, and as a whole again when the connection breaks. So a broken connection never costs more
# than this.
MULTIPART_BYTES_MIN = 64 * 1024 * 1024
# What is sent again when a connection breaks. S3 takes no part below 5 MiB. An object that has more
# than PARTS_MAX of these (156 GiB) gets larger parts.
PART_BYTES = 16 * 1024 * 1024
PARTS_MAX = 10_000  # what S3 takes
PARTS_AT_ONCE = 4  # of one object: MD5 goes through the parts in order, more would wait for it
# A store joins thousands of parts before it answers. Shorter would give up a join that goes on;
# longer holds an attempt at a store that never answers.
COMPLETE_SECONDS = 600.0
# An attempt that failed or was cancelled waits for this and for nothing else. Parts of a store that
# does not answer by then stay until the rules of the bucket remove them.
ABORT_SECONDS = 2.0
# What S3 and Google call it (and then Azure) when other bytes arrived than Content-MD5 states.
_DAMAGED_ON_ITS_WAY = ("BadDigest", "Md5Mismatch")


class BlockStoreUnusableError(Exception):
    """The block store was not reached or did not take a signed address; lakeFS itself may do."""


@final
class BlockStore:
    """The block store of one lakeFS, by signed addresses."""

    def __init__(
        self, client: LakeFSClient, terms: Mapping[str, object], *, is_only_way: bool
    ) -> None:
        self._client = client
        self._is_only_way = is_only_way
        self._in_parts = bool(terms.get("pre_sign_multipart_upload"))
        # Azure takes a PUT only with the kind of blob in it.
        is_azure = terms.get("blockstore_type") == "azure"
        self._extra = {"x-ms-blob-type": "BlockBlob"} if is_azure else {}

    @asynccontextmanager
    async def read(self, request: ApiRequest, headers: Mapping[str, str]) -> AsyncGenerator[Reply]:
        """Ask for the address of what the request would bring, and read from there."""
        query = {**request.query, "presign": "true"}
        stat = replace(request, path=(*request.path, "stat"), query=query)
        url = await self._client.send(stat, text_of("physical_address"))
        with self._usable():
            async with self._client.exchange(ApiRequest("GET", signed_url=url), headers) as reply:
                yield reply

    async def store(
        self, operation: Operation, branch: tuple[str, ...], upload: ObjectUpload, file: LeavingFile
    ) -> ObjectEntry:
        """Write one object: an address, the bytes, and the link that makes it visible."""
        if self._in_parts and file.size >= MULTIPART_BYTES_MIN:
            return await self._store_parts(operation, branch, upload, file)
        backing, query = (*branch, "staging", "backing"), {"path": upload.path}
        digest = hashlib.md5(usedforsecurity=False)
        await self._client.by_hand(file.digest, 0, file.size, digest.update)
        ask = ApiRequest("GET", backing, {**query, "presign": "true"})

        async def attempt() -> dict[str, str]:
            # Only the address goes back: lakeFS quotes a body that it refuses.
            url, staging = await self._client.send(ask, partial(_opened, name="presigned_url"))
            await self._put(url, file, 0, file.size, digest.digest())
            return staging

        linked = {
            "staging": await self._client.repeat(operation, attempt),
            "checksum": digest.hexdigest(),
            "size_bytes": file.size,
            **_description(upload),
        }
        link = ApiRequest("PUT", backing, query, linked)
        return await self._client.insist(operation, link, stored_object)

    async def _store_parts(
        self, operation: Operation, branch: tuple[str, ...], upload: ObjectUpload, file: LeavingFile
    ) -> ObjectEntry:
        request = ApiRequest("POST", (*branch, "staging", "pmpu"), {"path": upload.path})
        upload_id, address = await self._client.insist(
            operation, request, partial(_opened, name="upload_id")
        )
        request = replace(request, path=(*request.path, upload_id), content=address)

        async def part_url(number: int) -> str:
            path = (*request.path, "parts", str(number))
            part = replace(request, method="PUT", path=path)
            return await self._client.send(part, text_of("presigned_url"))

        try:
            parts, md5 = await self._send_parts(operation, file, part_url)
            content = {**address, "parts": parts, **_description(upload)}
            complete = replace(request, method="PUT", content=content, seconds=COMPLETE_SECONDS)
            entry = await self._client.repeat(operation, partial(self._join, operation, complete))
        except BaseException:
            # Parts that are not joined would stay in the block store, and be paid for.
            with suppress(FailedRequestError, TimeoutError):
                async with asyncio.timeout(ABORT_SECONDS):
                    await self._client.send(replace(request, method="DELETE"), bytes)
            raise
        # What the store calls it is no MD5; the caller compares what was sent with what it meant.
        return entry._replace(checksum=md5)

    async def _join(self, operation: Operation, complete: ApiRequest) -> ObjectEntry:
        """Complete an upload; repeated only where it surely has not begun.

        After a lost answer the parts may be joined, and the second time there is nothing to join.
        """
        try:
            return await self._client.send(complete, stored_object)
        except FailedRequestError as error:
            match error.failure:
                case NotSent() | Refused(status=429):
                    raise
                case _:
                    text = f"{operation.name} {operation.subject}: its parts were not joined"
                    raise OutcomeUnknownError(f"{text}: {error}") from error

    async def _send_parts(
        self, operation: Operation, file: LeavingFile, part_url: Callable[[int], Awaitable[str]]
    ) -> tuple[list[dict[str, object]], str]:
        """Send all parts, a few side by side; gives their tags and the MD5 of the whole.

        The parts are digested in order, once for themselves and once for the whole.
        """
        size = max(PART_BYTES, -(-file.size // PARTS_MAX))
        whole = hashlib.md5(usedforsecurity=False)
        in_turn = asyncio.Lock()  # first come, first served, and parts come in order

        async def send(start: int) -> dict[str, object]:
            number, length = start // size + 1, min(size, file.size - start)
            part = hashlib.md5(usedforsecurity=False)
            async with in_turn:
                await self._client.by_hand(file.digest, start, length, part.update, whole.update)

            async def attempt() -> str:
                return await self._put(await part_url(number), file, start, length, part.digest())

            return {"part_number": number, "etag": await self._client.repeat(operation, attempt)}

        parts = await side_by_side(range(0, file.size, size), send, PARTS_AT_ONCE)
        return parts, whole.hexdigest()

    async def _put(self, url: str, file: LeavingFile, start: int, length: int, md5: bytes) -> str:
        body = partial(file.outgoing, self._client, start, length)
        headers = {**self._extra, "Content-MD5": base64.b64encode(md5).decode()}
        with self._usable():
            async with self._client.exchange(
                ApiRequest("PUT", signed_url=url), headers, body
            ) as reply:
                await reply.read(JSON_BYTES_MAX)
                return reply.headers.get("etag", "").strip('"')

    @contextmanager
    def _usable(self) -> Generator[None]:
        """Raise BlockStoreUnusableError where lakeFS itself may do what its store did not."""
        try:
            yield
        except FailedRequestError as error:
            match error.failure:
                case Refused(text=text) if any(word in text for word in _DAMAGED_ON_ITS_WAY):
                    raise FailedRequestError(Lost(text, broken=True)) from error  # sent again
                case NotSent() if not self._is_only_way:  # else waited for, as lakeFS itself is
                    raise BlockStoreUnusableError(str(error.failure)) from error
                case Refused() if error.is_final:
                    raise BlockStoreUnusableError(str(error.failure)) from error
                case _:
                    raise


def _opened(body: bytes, name: str) -> tuple[str, dict[str, str]]:
    """Read one field and the address where the bytes will be."""
    opened = json.loads(body)
    return str(opened[name]), {"physical_address": str(opened["physical_address"])}


def _description(upload: ObjectUpload) -> dict[str, object]:
    return {"content_type": upload.content_type, "user_metadata": dict(upload.metadata)}
