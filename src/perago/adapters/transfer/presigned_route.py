"""Presigned URLs: bytes go straight to and from the block store, the server only signs.

A URL is asked for when it is used, never earlier: it lives for minutes.
"""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import cast, final
from urllib.parse import urlsplit

from perago.adapters.transfer.api_route import LakeFSApi, Place, entry_of, objects_path
from perago.adapters.transfer.connections import Request
from perago.adapters.transfer.failures import AnsweredError, BrokenError
from perago.adapters.transfer.landing import land, local_disk
from perago.adapters.transfer.sending import FileBody, open_to_send
from perago.ports.errors import DamagedObjectError, LocalDiskError
from perago.ports.object_transport import FetchOrder
from perago.ports.objects import ObjectEntry, ObjectUpload

MULTIPART_BYTES_MIN = 64 * 1024 * 1024
PART_BYTES = 16 * 1024 * 1024
PARTS_AT_ONCE = 4
_PIECE_BYTES = 1024 * 1024


@final
class PresignedRoute:
    """Objects past the server."""

    name = "presigned"
    asks_before = True

    def __init__(self, api: LakeFSApi, *, multipart: bool) -> None:
        self._api = api
        self._multipart = multipart

    def fetch(self, place: Place, order: FetchOrder) -> str:
        """Bring one object down; gives its MD5."""
        with self._api.connections.exchange(self.part_request(place, order)) as answer:
            return land(order, answer)

    def part_request(self, place: Place, order: FetchOrder) -> Request:
        """A freshly signed request for an object."""
        query = {"path": order.entry.path, "presign": "true"}
        stats = self._api.ask("GET", f"{objects_path(place, 'refs')}/stat", query)
        return _signed("GET", str(stats["physical_address"]))

    def store(self, place: Place, upload: ObjectUpload) -> ObjectEntry:
        """Write one object: an address, the bytes, and the link that makes it visible."""
        with open_to_send(upload.source) as (file, size):
            if self._multipart and size >= MULTIPART_BYTES_MIN:
                return self._store_parts(place, upload, FileBody(upload.source, file, 0, size))
            backing = f"{_staging_path(place)}/backing"
            query = {"path": upload.path}
            staging = self._api.ask("GET", backing, {**query, "presign": "true"})
            body = FileBody(upload.source, file, 0, size)
            tag = self._put(str(staging["presigned_url"]), body)
            md5 = _md5(body)
        if tag and tag != md5:
            raise _changed(upload, md5, tag)
        linked = {
            "staging": staging,
            "checksum": md5,
            "size_bytes": size,
            **_description(upload),
        }
        return entry_of(self._api.ask("PUT", backing, query, linked))

    def _store_parts(self, place: Place, upload: ObjectUpload, body: FileBody) -> ObjectEntry:
        starts = range(0, body.length, PART_BYTES)
        query = {"path": upload.path, "parts": str(len(starts))}
        opened = self._api.ask("POST", f"{_staging_path(place)}/pmpu", query)
        path = f"{_staging_path(place)}/pmpu/{opened['upload_id']}"
        address = {"physical_address": opened["physical_address"]}
        urls = cast("Sequence[str]", opened["presigned_urls"])
        try:
            with ThreadPoolExecutor(PARTS_AT_ONCE, thread_name_prefix="perago-part") as threads:
                tags = list(threads.map(partial(self._put_part, body), starts, urls))
        except BaseException:
            # Parts that nobody completes would stay in the block store, and be paid for.
            with suppress(AnsweredError, BrokenError):
                self._api.ask("DELETE", path, {"path": upload.path}, address)
            raise
        parts = [{"part_number": number, "etag": tag} for number, tag in enumerate(tags, start=1)]
        complete = {**address, "parts": parts, **_description(upload)}
        return entry_of(self._api.ask("PUT", path, {"path": upload.path}, complete))

    def _put_part(self, whole: FileBody, start: int, url: str) -> str:
        """Store one part through a file of its own: threads do not share where one stands."""
        with open_to_send(whole.path) as (file, _):
            if not os.path.sameopenfile(file.fileno(), whole.file.fileno()):
                raise LocalDiskError(
                    f"{whole.path} was replaced while it was uploaded; nothing was published;"
                    " a process of the task may still write to it"
                )
            length = min(PART_BYTES, whole.length - start)
            return self._put(url, FileBody(whole.path, file, start, length))

    def _put(self, url: str, body: FileBody) -> str:
        with self._api.connections.exchange(_signed("PUT", url, body)) as answer:
            answer.read()
            return (answer.getheader("ETag") or "").strip('"')


def _signed(method: str, url: str, body: FileBody | None = None) -> Request:
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return Request(method, f"{parts.scheme}://{parts.netloc}", target, {}, body)


def _staging_path(place: Place) -> str:
    return objects_path(place, "branches").removesuffix("/objects") + "/staging"


def _description(upload: ObjectUpload) -> dict[str, object]:
    return {"content_type": upload.content_type, "user_metadata": dict(upload.metadata)}


def _md5(body: FileBody) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with local_disk(body.path):
        body.file.seek(body.start)
        while piece := body.file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _changed(upload: ObjectUpload, expected: str, found: str) -> DamagedObjectError:
    return DamagedObjectError(
        f"{upload.path} arrived in the block store with other bytes than the file has: expected"
        f" MD5 {expected}, found {found}; nothing was published;"
        " a process of the task may still write to it"
    )
