"""The plain API: one request for each object, through the lakeFS server.

Every installation has it. Sends one request; whether to try again is decided elsewhere.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import cast, final
from urllib.parse import quote, urlsplit

from perago.adapters.transfer.configuration import TransferConfiguration
from perago.adapters.transfer.connections import Body, Connections, Inline, Request
from perago.adapters.transfer.failures import AnsweredError
from perago.adapters.transfer.landing import land
from perago.adapters.transfer.sending import FileBody, open_to_send
from perago.domain.references import IMPOSSIBLE_NAMES, BranchName, RepositoryId
from perago.ports.object_transport import FetchOrder
from perago.ports.objects import DEFAULT_CONTENT_TYPE, ObjectEntry, ObjectUpload

_PLAIN_TYPE = re.compile(r"(?!multipart/)[\w.+-]+/[\w.+-]+(; *charset=[\w-]+)?", re.ASCII)
_HEADER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_BOUNDARY = "perago-7d1f0c5a93e84b62"


@dataclass(frozen=True, slots=True)
class Place:
    """A repository and one of its branches or commits."""

    repository: RepositoryId
    ref: str


@final
class LakeFSApi:
    """Requests to the API of one installation, with its credentials."""

    def __init__(self, configuration: TransferConfiguration, connections: Connections) -> None:
        parts = urlsplit(configuration.endpoint_url.rstrip("/"))
        self._origin = f"{parts.scheme}://{parts.netloc}"
        path = parts.path.removesuffix("/api/v1")
        self._path = f"{path}/api/v1"
        pair = f"{configuration.access_key_id}:{configuration.secret_access_key}"
        self._authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self.connections = connections

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Request:
        """One request with the credentials."""
        asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        target = f"{self._path}{path}" + (f"?{asked}" if asked else "")
        own = {"Authorization": self._authorization, "Accept": "*/*"}
        return Request(method, self._origin, target, {**own, **(headers or {})}, body)

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        content: Mapping[str, object] | None = None,
    ) -> dict[str, object]:
        """A request with JSON on both sides; an empty answer is an empty object."""
        body = None if content is None else Inline(json.dumps(content).encode())
        headers = {"Content-Type": "application/json"}
        with self.connections.exchange(self.request(method, path, query, body, headers)) as answer:
            text = answer.read()
        return cast("dict[str, object]", json.loads(text)) if text else {}


@final
class ApiRoute:
    """Objects through the server."""

    name = "api"
    asks_before = False

    def __init__(self, api: LakeFSApi) -> None:
        self._api = api

    def fetch(self, place: Place, order: FetchOrder) -> str:
        """Bring one object down; gives its MD5."""
        request = self._api.request("GET", objects_path(place, "refs"), {"path": order.entry.path})
        with self._api.connections.exchange(request) as answer:
            return land(order, answer)

    def part_request(self, place: Place, order: FetchOrder) -> Request:
        """The request that parts of an object are asked with."""
        return self._api.request("GET", objects_path(place, "refs"), {"path": order.entry.path})

    def store(self, place: Place, upload: ObjectUpload) -> ObjectEntry:
        """Write one object; what headers cannot carry of its metadata follows in a request."""
        plain = {name: value for name, value in upload.metadata.items() if _fits(name, value)}
        headers = {f"x-lakefs-meta-{name}": value for name, value in plain.items()}
        before, behind = b"", b""
        if _PLAIN_TYPE.fullmatch(upload.content_type):
            headers["Content-Type"] = upload.content_type
        else:
            headers["Content-Type"] = f"multipart/form-data; boundary={_BOUNDARY}"
            before, behind = _envelope(upload.content_type)
        with open_to_send(upload.source) as (file, size):
            body = FileBody(upload.source, file, 0, size, before, behind)
            request = self._api.request(
                "POST", objects_path(place, "branches"), {"path": upload.path}, body, headers
            )
            with self._api.connections.exchange(request) as answer:
                entry = entry_of(json.loads(answer.read()))
        if len(plain) == len(upload.metadata):
            return entry
        return self._describe(place, upload, entry)

    def _describe(self, place: Place, upload: ObjectUpload, entry: ObjectEntry) -> ObjectEntry:
        self._api.ask(
            "PUT",
            f"{objects_path(place, 'branches')}/stat/user_metadata",
            {"path": upload.path},
            {"set": dict(upload.metadata)},
        )
        return ObjectEntry(
            entry.path,
            entry.checksum,
            entry.size,
            entry.modified_at,
            entry.content_type,
            MappingProxyType(dict(upload.metadata)),
        )


def objects_path(place: Place, kind: str) -> str:
    """The path of the objects of a branch or a reference; lakeFS is not asked for what none has."""
    if place.repository in IMPOSSIBLE_NAMES:
        raise AnsweredError(HTTPStatus.NOT_FOUND, b'{"message": "repository not found"}')
    if place.ref in IMPOSSIBLE_NAMES:
        raise AnsweredError(HTTPStatus.NOT_FOUND, b'{"message": "reference not found"}')
    repository, ref = quote(place.repository, safe=""), quote(place.ref, safe="")
    return f"/repositories/{repository}/{kind}/{ref}/objects"


def branch_place(repository: RepositoryId, branch: BranchName) -> Place:
    """A branch as a place to write to."""
    return Place(repository, branch)


def entry_of(stats: Mapping[str, object]) -> ObjectEntry:
    """One object as lakeFS's JSON shows it."""
    metadata = cast("Mapping[str, str]", stats.get("metadata") or {})
    return ObjectEntry(
        path=str(stats["path"]),
        checksum=str(stats["checksum"]),
        size=int(str(stats["size_bytes"])),
        modified_at=int(str(stats["mtime"])),
        content_type=str(stats.get("content_type") or DEFAULT_CONTENT_TYPE),
        metadata=MappingProxyType(dict(metadata)),
    )


def _fits(name: str, value: str) -> bool:
    """Whether a header carries this as it is: lakeFS lowers the case of header names."""
    return bool(_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value))


def _envelope(content_type: str) -> tuple[bytes, bytes]:
    """A form around the bytes: the server takes other content types only from there."""
    before = (
        f"--{_BOUNDARY}\r\n"
        'Content-Disposition: form-data; name="content"; filename="content"\r\n'
        f"Content-Type: {content_type}\r\n\r\n"
    )
    return before.encode(), f"\r\n--{_BOUNDARY}--\r\n".encode()
