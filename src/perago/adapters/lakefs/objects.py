"""Objects over lakefs-sdk, their bodies as streams.

Knows one object or one page at a time; what is moved, and in which order, is decided elsewhere.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, final

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.error_mapping import Operation, port_error
from perago.adapters.lakefs.exchange import Refused
from perago.adapters.lakefs.local_file import FileSource, open_source, write_new
from perago.adapters.lakefs.object_entries import object_entry, object_page
from perago.domain.logical_execution import BranchName, RepositoryId
from perago.ports.errors import BranchMissingError, ObjectMissingError
from perago.ports.objects import (
    LIST_AMOUNT_MAX,
    ObjectEntry,
    ObjectPage,
    Objects,
    ObjectUpload,
)

if TYPE_CHECKING:
    from perago.adapters.lakefs.sdk import LakeFSSdk

METADATA_HEADER_PREFIX = "x-lakefs-meta-"


@final
class LakeFSObjects(Objects):
    """Objects of one lakeFS installation."""

    def __init__(self, client: LakeFSClient) -> None:
        self._client = client

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
        place = (*_object_path(repository, "refs", ref), "ls")
        body = await self._client.ask(
            Operation("list objects of", f"{repository}/{ref}/{prefix}"),
            lambda sdk: sdk.raw.fetch(place, query),
        )
        return object_page(body)

    async def read(self, repository: RepositoryId, ref: str, path: str) -> bytes:
        return await self._client.ask(
            Operation("read object", f"{repository}/{ref}/{path}", missing=ObjectMissingError),
            lambda sdk: sdk.raw.fetch(_object_path(repository, "refs", ref), {"path": path}),
        )

    async def download(self, repository: RepositoryId, ref: str, path: str, target: Path) -> None:
        def send(sdk: "LakeFSSdk") -> None:
            place = _object_path(repository, "refs", ref)
            with sdk.raw.receive(place, {"path": path}) as pieces:
                write_new(target, pieces)

        await self._client.transfer(
            Operation("download", f"{repository}/{ref}/{path}", missing=ObjectMissingError), send
        )

    async def upload(
        self, repository: RepositoryId, branch: BranchName, upload: ObjectUpload
    ) -> ObjectEntry:
        def send(sdk: "LakeFSSdk") -> ObjectEntry:
            with open_source(upload.source) as file:
                source = FileSource(upload.source, file)
                answer = sdk.raw.send(
                    _object_path(repository, "branches", branch),
                    {"path": upload.path},
                    _upload_headers(upload, source.size),
                    source,
                )
            return object_entry(json.loads(answer))

        operation = Operation(
            "upload",
            f"{repository}/{branch}/{upload.path}",
            writes=True,
            missing=BranchMissingError,
        )
        return await self._client.transfer(operation, send)

    async def delete_many(
        self, repository: RepositoryId, branch: BranchName, paths: Sequence[str]
    ) -> None:
        operation = Operation(
            "delete objects of", f"{repository}/{branch}", writes=True, missing=BranchMissingError
        )
        answer = await self._client.ask(
            operation,
            lambda sdk: sdk.objects.delete_objects(
                repository, branch, sdk.new_paths(paths=list(paths)), force=False
            ),
        )
        for error in answer.errors:
            refused = Refused(error.status_code, f"{error.path}: {error.message}")
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
        operation = Operation(
            "copy",
            f"{repository}/{source_ref}/{source_path} to {branch}/{target_path}",
            writes=True,
            missing=ObjectMissingError,
        )
        stats = await self._client.ask(
            operation,
            lambda sdk: sdk.objects.copy_object(
                repository,
                branch,
                target_path,
                sdk.new_copy(src_ref=source_ref, src_path=source_path, force=False, shallow=None),
            ),
        )
        return object_entry(stats.dict())


def _object_path(repository: str, kind: str, name: str) -> tuple[str, ...]:
    return ("repositories", repository, kind, name, "objects")


def _upload_headers(upload: ObjectUpload, size: int) -> dict[str, str]:
    headers = {"Content-Type": upload.content_type, "Content-Length": str(size)}
    return headers | {
        f"{METADATA_HEADER_PREFIX}{name}": value for name, value in upload.metadata.items()
    }
