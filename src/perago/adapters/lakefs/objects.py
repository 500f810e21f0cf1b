"""Objects as two ports: one object or one page at a time, and many objects at once.

Chooses by which route the bytes of each object go. What is moved, and in which order, is decided
elsewhere.
"""

import asyncio
import json
import logging
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, final

from perago.adapters.lakefs import answers
from perago.adapters.lakefs.answers import Operation, Refused
from perago.adapters.lakefs.block_store import BlockStore, BlockStoreUnusableError
from perago.adapters.lakefs.client import (
    JSON_BYTES_MAX,
    ApiRequest,
    LakeFSClient,
    at_branch,
    at_ref,
    read_answer,
    side_by_side,
)
from perago.adapters.lakefs.configuration import RouteChoice
from perago.adapters.lakefs.object_files import (
    LARGE_STREAMS_ENOUGH,
    SPLIT_BYTES_MIN,
    Download,
    LeavingFile,
)
from perago.domain.lakefs import BranchName, RepositoryId
from perago.ports import errors, objects

LOGGER = logging.getLogger("perago.transfer")

# Each object would otherwise wait for a connection to a store that is out of reach. After five
# minutes the next object tries it again, so that a store that has come back is used without a
# restart of the worker.
STORE_AVOIDED_SECONDS = 300.0
# A signed address costs a request of its own, so it pays for larger objects only.
PRESIGNED_BYTES_MIN = 4 * 1024 * 1024

_PLAIN_TYPE = re.compile(r"(?!multipart/)[\w.+-]+/[\w.+-]+(; *charset=[\w-]+)?", re.ASCII)
_HEADER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_BOUNDARY = "perago-7d1f0c5a93e84b62"

# The path of a branch or a reference, see `at_branch` and `at_ref`.
RepositoryRef: TypeAlias = tuple[str, ...]


@final
class LakeFSObjects(objects.Objects, objects.ObjectTransport):
    """Objects of one lakeFS installation, one by one and many at once."""

    def __init__(self, client: LakeFSClient) -> None:
        self._client = client
        self._configuration = client.configuration
        self._store: asyncio.Task[BlockStore | str] | None = None
        self._store_avoided_until = 0.0

    async def list_page(
        self,
        repository: RepositoryId,
        ref: str,
        *,
        prefix: str,
        after: str = "",
        amount: int = objects.LIST_AMOUNT_MAX,
    ) -> objects.Page[objects.ObjectEntry]:
        query = {"prefix": prefix, "after": after, "amount": str(amount), "user_metadata": "true"}
        operation = Operation("list objects of", f"{repository}/{ref}/{prefix}")
        request = ApiRequest("GET", at_ref(repository, ref, "objects", "ls"), query)
        return await self._client.ask(operation, request, answers.page_of_objects)

    async def read(self, repository: RepositoryId, ref: str, path: str) -> bytes:
        return await self._client.ask(
            Operation(
                "read object", f"{repository}/{ref}/{path}", missing=errors.ObjectMissingError
            ),
            ApiRequest("GET", at_ref(repository, ref, "objects"), {"path": path}),
            bytes,
        )

    async def download(self, repository: RepositoryId, ref: str, path: str, target: Path) -> None:
        entry = await self._client.ask(
            Operation("download", f"{repository}/{ref}/{path}", missing=errors.ObjectMissingError),
            ApiRequest("GET", at_ref(repository, ref, "objects", "stat"), {"path": path}),
            answers.stored_object,
        )
        await self.fetch(repository, ref, [objects.FetchOrder(entry, target)])

    async def upload(
        self, repository: RepositoryId, branch: BranchName, upload: objects.ObjectUpload
    ) -> objects.ObjectEntry:
        (entry,) = await self.store(repository, branch, [upload])
        return entry

    async def delete_many(
        self, repository: RepositoryId, branch: BranchName, paths: Sequence[str]
    ) -> None:
        what = f"{repository}/{branch}"
        operation = Operation(
            "delete objects of", what, writes=True, missing=errors.BranchMissingError
        )
        path = at_branch(repository, branch, "objects", "delete")
        request = ApiRequest("POST", path, {"force": "false"}, {"paths": list(paths)})
        for refused in await self._client.ask(operation, request, _refusals):
            raise answers.port_error(operation, refused)

    async def copy(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        source_ref: str,
        source_path: str,
        target_path: str,
    ) -> objects.ObjectEntry:
        what = f"{repository}/{source_ref}/{source_path} to {branch}/{target_path}"
        path = at_branch(repository, branch, "objects", "copy")
        source = {"src_ref": source_ref, "src_path": source_path, "force": False}
        return await self._client.ask(
            Operation("copy", what, writes=True, missing=errors.ObjectMissingError),
            ApiRequest("POST", path, {"dest_path": target_path}, source),
            answers.stored_object,
        )

    async def fetch(
        self,
        repository: RepositoryId,
        ref: str,
        orders: Sequence[objects.FetchOrder],
        moved: objects.Moved = objects.uncounted,
    ) -> Sequence[objects.Fetched]:
        """Bring objects down; the first failure ends the others and raises."""
        large = sum(order.entry.size >= SPLIT_BYTES_MIN for order in orders)
        streams = -(-LARGE_STREAMS_ENOUGH // max(large, 1))
        fetch = partial(self._fetch, at_ref(repository, ref), moved, streams=streams)
        at_once = self._configuration.requests_concurrent_max
        return await self._client.run(side_by_side(orders, fetch, at_once))

    async def store(
        self,
        repository: RepositoryId,
        branch: BranchName,
        uploads: Sequence[objects.ObjectUpload],
        moved: objects.Moved = objects.uncounted,
    ) -> Sequence[objects.ObjectEntry]:
        """Write objects; the first failure ends the others and raises."""
        upload = partial(self._upload, at_branch(repository, branch), moved)
        at_once = self._configuration.requests_concurrent_max
        return await self._client.run(side_by_side(uploads, upload, at_once))

    async def ask_for_route(self) -> tuple[str, str]:
        """The route that `auto` means for this server, and why; asks the server."""
        store = await self._client.run(self._signing_store())
        if isinstance(store, str):
            return "api", store
        mebibytes = PRESIGNED_BYTES_MIN // (1024 * 1024)
        return f"presigned from {mebibytes} MiB, else api", "the block store of this lakeFS signs"

    async def _signing_store(self) -> BlockStore | str:
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
            terms = await self._client.insist(operation, request, answers.storage_terms)
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
        is_small = size < PRESIGNED_BYTES_MIN
        if self._configuration.route is RouteChoice.API or (is_small and not must_sign):
            return None
        store = await self._signing_store()
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
        self, at: RepositoryRef, moved: objects.Moved, order: objects.FetchOrder, *, streams: int
    ) -> objects.Fetched:
        path, size = order.entry.path, order.entry.size
        request = ApiRequest("GET", (*at, "objects"), {"path": path})
        download = Download(
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

    async def _upload(
        self, at: RepositoryRef, moved: objects.Moved, upload: objects.ObjectUpload
    ) -> objects.ObjectEntry:
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
        self, at: RepositoryRef, upload: objects.ObjectUpload, file: LeavingFile
    ) -> objects.ObjectEntry:
        headers = {f"x-lakefs-meta-{name}": text for name, text in _plain(upload).items()}
        around = (b"", b"")
        if _PLAIN_TYPE.fullmatch(upload.content_type):
            headers["Content-Type"] = upload.content_type
        else:
            headers["Content-Type"] = f"multipart/form-data; boundary={_BOUNDARY}"
            around = _envelope(upload.content_type)
        body = partial(file.outgoing, self._client, 0, file.size, around)
        request = ApiRequest("POST", (*at, "objects"), {"path": upload.path})
        async with self._client.exchange(request, headers, body) as reply:
            answer = await reply.read(JSON_BYTES_MAX)
            return read_answer(answer, answers.stored_object)

    async def _describe(
        self,
        operation: Operation,
        at: RepositoryRef,
        upload: objects.ObjectUpload,
        entry: objects.ObjectEntry,
    ) -> objects.ObjectEntry:
        """Write the metadata that headers cannot carry in a request of its own."""
        path, content = (*at, "objects", "stat", "user_metadata"), {"set": dict(upload.metadata)}
        request = ApiRequest("PUT", path, {"path": upload.path}, content)
        await self._client.insist(operation, request, bytes)
        return entry._replace(metadata=MappingProxyType(dict(upload.metadata)))


def _refusals(body: bytes) -> list[Refused]:
    """Read which objects were not deleted, and why."""
    refused: list[dict[str, Any]] = json.loads(body)["errors"] or []
    return [Refused(one["status_code"], f"{one.get('path')}: {one['message']}") for one in refused]


def _plain(upload: objects.ObjectUpload) -> dict[str, str]:
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
