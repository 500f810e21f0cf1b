"""Objects as two ports: one object or one page at a time, and many objects at once.

What is moved, and in which order, is decided elsewhere; how bytes move is `object_bytes`'.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from perago.adapters.lakefs.answers import object_entry, page_of, stored_object
from perago.adapters.lakefs.client import ApiRequest, LakeFSClient, at_branch, at_ref
from perago.adapters.lakefs.errors import Operation, Refused, port_error
from perago.adapters.lakefs.object_bytes import ObjectBytes
from perago.domain.logical_execution import BranchName, RepositoryId
from perago.ports.errors import BranchMissingError, ObjectMissingError
from perago.ports.objects import (
    LIST_AMOUNT_MAX,
    Fetched,
    FetchOrder,
    Moved,
    ObjectEntry,
    ObjectPage,
    Objects,
    ObjectTransport,
    ObjectUpload,
    uncounted,
)


@final
class LakeFSObjects(Objects, ObjectTransport):
    """Objects of one lakeFS installation, one by one and many at once."""

    def __init__(self, client: LakeFSClient) -> None:
        self._client = client
        self._bytes = ObjectBytes(client)

    async def list_page(
        self,
        repository: RepositoryId,
        ref: str,
        *,
        prefix: str,
        after: str = "",
        amount: int = LIST_AMOUNT_MAX,
    ) -> ObjectPage:
        query = {"prefix": prefix, "after": after, "amount": str(amount), "user_metadata": "true"}
        operation = Operation("list objects of", f"{repository}/{ref}/{prefix}")
        request = ApiRequest("GET", at_ref(repository, ref, "objects", "ls"), query)
        return ObjectPage(*await self._client.ask(operation, request, page_of(object_entry)))

    async def read(self, repository: RepositoryId, ref: str, path: str) -> bytes:
        return await self._client.ask(
            Operation("read object", f"{repository}/{ref}/{path}", missing=ObjectMissingError),
            ApiRequest("GET", at_ref(repository, ref, "objects"), {"path": path}),
            bytes,
        )

    async def download(self, repository: RepositoryId, ref: str, path: str, target: Path) -> None:
        entry = await self._client.ask(
            Operation("download", f"{repository}/{ref}/{path}", missing=ObjectMissingError),
            ApiRequest("GET", at_ref(repository, ref, "objects", "stat"), {"path": path}),
            stored_object,
        )
        await self.fetch(repository, ref, [FetchOrder(entry, target)])

    async def upload(
        self, repository: RepositoryId, branch: BranchName, upload: ObjectUpload
    ) -> ObjectEntry:
        (entry,) = await self.store(repository, branch, [upload])
        return entry

    async def delete_many(
        self, repository: RepositoryId, branch: BranchName, paths: Sequence[str]
    ) -> None:
        what = f"{repository}/{branch}"
        operation = Operation("delete objects of", what, writes=True, missing=BranchMissingError)
        path = at_branch(repository, branch, "objects", "delete")
        request = ApiRequest("POST", path, {"force": "false"}, {"paths": list(paths)})
        for refused in await self._client.ask(operation, request, _refusals):
            raise port_error(operation, refused)

    async def copy(
        self,
        repository: RepositoryId,
        branch: BranchName,
        *,
        source_ref: str,
        source_path: str,
        target_path: str,
    ) -> ObjectEntry:
        what = f"{repository}/{source_ref}/{source_path} to {branch}/{target_path}"
        path = at_branch(repository, branch, "objects", "copy")
        source = {"src_ref": source_ref, "src_path": source_path, "force": False}
        return await self._client.ask(
            Operation("copy", what, writes=True, missing=ObjectMissingError),
            ApiRequest("POST", path, {"dest_path": target_path}, source),
            stored_object,
        )

    async def fetch(
        self,
        repository: RepositoryId,
        ref: str,
        orders: Sequence[FetchOrder],
        moved: Moved = uncounted,
    ) -> Sequence[Fetched]:
        work = self._bytes.fetch_all(at_ref(repository, ref), orders, moved)
        return await self._client.run(work)

    async def store(
        self,
        repository: RepositoryId,
        branch: BranchName,
        uploads: Sequence[ObjectUpload],
        moved: Moved = uncounted,
    ) -> Sequence[ObjectEntry]:
        work = self._bytes.store_all(at_branch(repository, branch), uploads, moved)
        return await self._client.run(work)

    async def ask_for_route(self) -> tuple[str, str]:
        """The route that `auto` means for this server, and why; asks the server."""
        store = await self._client.run(self._bytes.signing_store())
        if isinstance(store, str):
            return "api", store
        mebibytes = self._client.configuration.presigned_bytes_min // (1024 * 1024)
        return f"presigned from {mebibytes} MiB, else api", "the block store of this lakeFS signs"


def _refusals(body: bytes) -> list[Refused]:
    """Read which objects were not deleted, and why."""
    errors: list[dict[str, Any]] = json.loads(body)["errors"] or []
    return [Refused(one["status_code"], f"{one.get('path')}: {one['message']}") for one in errors]
