"""Objects past the server: lakeFS signs addresses of its block store, and the bytes go there.

An address is asked for when it is used, never earlier, because it lives for minutes. What a store
calls an ETag says nothing about the bytes: stores with managed keys or parts state other texts.
Each body carries its Content-MD5 instead, and the store refuses other bytes.
"""

import asyncio
import base64
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeAlias, final

from perago.adapters.http import Reply
from perago.adapters.lakefs.error_mapping import Operation
from perago.adapters.lakefs.exchange import Lost, NotSent, Refused
from perago.adapters.lakefs.object_entries import object_entry
from perago.adapters.lakefs.object_files import DIGEST_BYTES, LeavingFile
from perago.adapters.lakefs.object_requests import (
    JSON_BYTES_MAX,
    FailedRequestError,
    ObjectRequests,
    Place,
)
from perago.ports.errors import OutcomeUnknownError
from perago.ports.objects import ObjectEntry, ObjectUpload

MULTIPART_BYTES_MIN = 64 * 1024 * 1024
PART_BYTES = 16 * 1024 * 1024
PARTS_MAX = 10_000  # what S3 takes
PARTS_AT_ONCE = 4  # of one object
# A store joins thousands of parts before it answers.
COMPLETE_SECONDS = 600.0
ABORT_SECONDS = 2.0
# What S3 and Google call it (and then Azure) when other bytes arrived than Content-MD5 states.
_DAMAGED_ON_ITS_WAY = ("BadDigest", "Md5Mismatch")


class Digest(Protocol):
    """What hashlib makes; it has no public name there."""

    def update(self, data: bytes, /) -> None:
        """Take more bytes."""
        ...


# Asks for the address of one part.
PartUrl: TypeAlias = Callable[[int], Awaitable[str]]


class BlockStoreUnusableError(Exception):
    """The block store was not reached or did not take a signed address; lakeFS itself may do."""


@final
class BlockStore:
    """The block store of one lakeFS, by signed addresses."""

    def __init__(self, requests: ObjectRequests, terms: Mapping[str, object]) -> None:
        self._requests = requests
        self._in_parts = bool(terms.get("pre_sign_multipart_upload"))
        # Azure takes a PUT only with the kind of blob in it.
        is_azure = terms.get("blockstore_type") == "azure"
        self._extra = {"x-ms-blob-type": "BlockBlob"} if is_azure else {}

    async def address(self, place: Place, path: str) -> str:
        """Ask for the address to read one object from."""
        query = {"path": path, "presign": "true"}
        stats = await self._requests.ask("GET", f"{place.objects('refs')}/stat", query)
        return str(stats["physical_address"])

    @asynccontextmanager
    async def read(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[Reply]:
        """Read from a signed address."""
        with _usable():
            async with self._requests.stored("GET", url, headers) as reply:
                yield reply

    async def store(
        self, operation: Operation, place: Place, upload: ObjectUpload, file: LeavingFile
    ) -> ObjectEntry:
        """Write one object: an address, the bytes, and the link that makes it visible."""
        if self._in_parts and file.size >= MULTIPART_BYTES_MIN:
            return await self._store_parts(operation, place, upload, file)
        backing, query = f"{_staging(place)}/backing", {"path": upload.path}
        digest = hashlib.md5(usedforsecurity=False)
        await self._requests.by_hand(_digest, file, 0, file.size, digest)

        async def attempt() -> dict[str, Any]:
            staging = await self._requests.ask("GET", backing, {**query, "presign": "true"})
            await self._put(str(staging["presigned_url"]), file, 0, file.size, digest.digest())
            return staging

        linked = {
            "staging": await self._requests.repeat(operation, attempt),
            "checksum": digest.hexdigest(),
            "size_bytes": file.size,
            **_description(upload),
        }
        link = partial(self._requests.ask, "PUT", backing, query, linked)
        return object_entry(await self._requests.repeat(operation, link))

    async def _store_parts(
        self, operation: Operation, place: Place, upload: ObjectUpload, file: LeavingFile
    ) -> ObjectEntry:
        base, query = f"{_staging(place)}/pmpu", {"path": upload.path}
        begin = partial(self._requests.ask, "POST", base, query)
        opened = await self._requests.repeat(operation, begin)
        path = f"{base}/{opened['upload_id']}"
        address = {"physical_address": opened["physical_address"]}

        async def part_url(number: int) -> str:
            part = f"{path}/parts/{number}"
            return str((await self._requests.ask("PUT", part, query, address))["presigned_url"])

        try:
            parts, md5 = await self._send_parts(operation, file, part_url)
            content = {**address, "parts": parts, **_description(upload)}
            # Not repeated when its answer is lost: the second time there is nothing to complete.
            try:
                stats = await self._requests.ask(
                    "PUT", path, query, content, seconds=COMPLETE_SECONDS
                )
            except FailedRequestError as error:
                text = f"{operation.name} {operation.subject}: its parts were not joined: {error}"
                raise OutcomeUnknownError(text) from error
        except BaseException:
            # Parts that are not joined would stay in the block store, and be paid for.
            with suppress(FailedRequestError, TimeoutError):
                async with asyncio.timeout(ABORT_SECONDS):
                    await self._requests.ask("DELETE", path, query, address)
            raise
        # What the store calls it is no MD5; the caller compares what was sent with what it meant.
        return object_entry(stats)._replace(checksum=md5)

    async def _send_parts(
        self, operation: Operation, file: LeavingFile, part_url: PartUrl
    ) -> tuple[list[dict[str, object]], str]:
        """Send all parts, a few side by side; gives their tags and the MD5 of the whole.

        The parts are digested in order, once for themselves and once for the whole.
        """
        size = max(PART_BYTES, -(-file.size // PARTS_MAX))
        whole = hashlib.md5(usedforsecurity=False)
        window = asyncio.Semaphore(PARTS_AT_ONCE)
        tags: dict[int, str] = {}

        async def send(number: int, start: int, length: int, md5: bytes) -> None:
            async def attempt() -> str:
                return await self._put(await part_url(number), file, start, length, md5)

            try:
                tags[number] = await self._requests.repeat(operation, attempt)
            finally:
                window.release()

        try:
            async with asyncio.TaskGroup() as group:
                for number, start in enumerate(range(0, file.size, size), start=1):
                    await window.acquire()
                    length = min(size, file.size - start)
                    part = hashlib.md5(usedforsecurity=False)
                    await self._requests.by_hand(_digest, file, start, length, part, whole)
                    group.create_task(send(number, start, length, part.digest()))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        parts: list[dict[str, object]] = [
            {"part_number": number, "etag": tags[number]} for number in sorted(tags)
        ]
        return parts, whole.hexdigest()

    async def _put(self, url: str, file: LeavingFile, start: int, length: int, md5: bytes) -> str:
        body = self._requests.outgoing(file, start, length)
        headers = {**self._extra, "Content-MD5": base64.b64encode(md5).decode()}
        try:
            with _usable():
                async with self._requests.stored("PUT", url, headers, body) as reply:
                    await reply.read(JSON_BYTES_MAX)
                    return reply.headers.get("etag", "").strip('"')
        except FailedRequestError:
            if body.error is not None:
                raise body.error from None
            raise


class _usable:  # noqa: N801 - it reads as a statement
    """Raise BlockStoreUnusableError where lakeFS itself may do what its store did not."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, FailedRequestError):
            return
        match error.failure:
            case Refused(text=text) if any(word in text for word in _DAMAGED_ON_ITS_WAY):
                raise FailedRequestError(Lost(text, broken=True)) from error  # sent again
            case Refused() if error.is_final:
                raise BlockStoreUnusableError(str(error.failure)) from error
            case NotSent():
                raise BlockStoreUnusableError(str(error.failure)) from error
            case _:
                return


def _digest(file: LeavingFile, start: int, length: int, *digests: Digest) -> None:
    for offset in range(start, start + length, DIGEST_BYTES):
        piece = file.read(offset, min(DIGEST_BYTES, start + length - offset))
        for digest in digests:
            digest.update(piece)


def _staging(place: Place) -> str:
    return f"{place.objects('branches').removesuffix('/objects')}/staging"


def _description(upload: ObjectUpload) -> dict[str, object]:
    return {"content_type": upload.content_type, "user_metadata": dict(upload.metadata)}
