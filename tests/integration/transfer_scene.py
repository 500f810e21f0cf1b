"""A lakeFS and its block store on loopback that do with each request what a test says.

Only what a transport asks: objects, signed addresses, parts. Both count what arrives.
"""

import asyncio
import hashlib
import json
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import parse_qs, unquote, urlsplit

from tests.integration.http_scene import Arrived, ScriptedServer, scripted

from perago.adapters.http import HttpTerms
from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import LakeFSConfiguration, RetryTerms, RouteChoice
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.domain.lakefs import BranchName, RepositoryId
from perago.ports.objects import Fetched, FetchOrder, ObjectEntry, ObjectUpload

REPOSITORY = RepositoryId("repository")
BRANCH = BranchName("main")
NAMESPACE = "s3://bucket/repository"
SILENCE_SECONDS = 0.5
Answering = Callable[[Arrived], Awaitable[bool]]


def md5_of(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def answers(status: str, body: bytes, *headers: str) -> Answering:
    """A server that answers everything alike."""

    async def answer(arrived: Arrived) -> bool:
        await arrived.read_body()
        await arrived.answer(body, status, *headers)
        return True

    return answer


class Unheard(Arrived):
    """A request that takes effect, and whose answer goes nowhere."""

    async def send(self, data: bytes) -> None:
        """Drop it."""
        del data


@dataclass
class Lakefs:
    """What the two servers hold, and how they misbehave."""

    objects: dict[str, bytes] = field(default_factory=dict[str, bytes])
    parts: dict[str, bytes] = field(default_factory=dict[str, bytes])
    asked: list[str] = field(default_factory=list[str])
    asked_at: list[float] = field(default_factory=list[float])
    described: dict[str, object] = field(default_factory=dict[str, object])
    signs: bool = False
    blockstore_type: str = "s3"
    imported: bool = False  # objects are linked, and their checksum is what a store called them
    # Takes over a download, or an upload; gives whether the connection is kept.
    downloading: Answering | None = None
    uploading: Answering | None = None
    stored: Answering | None = None
    # Takes over the question whether the store signs.
    configured: Answering | None = None
    most_at_once: int = 0
    at_once: int = 0
    store_url: str = ""
    joins_refused: int = 0
    """How often joining the parts is still answered with 429."""
    used_addresses: set[str] = field(default_factory=set[str])
    loses: str = ""
    """The answer to the first request whose line has this pattern is lost."""

    async def serve(self, arrived: Arrived) -> bool:
        """Answer as lakeFS."""
        return await self._heard(arrived, self._serve)

    async def serve_store(self, arrived: Arrived) -> bool:
        """Answer as the block store."""
        return await self._heard(arrived, self._serve_store)

    async def _heard(self, arrived: Arrived, serve: Answering) -> bool:
        if not self.loses or not re.search(self.loses, arrived.line):
            return await serve(arrived)
        self.loses = ""
        unheard = Unheard(arrived.line, arrived.headers, arrived.reader, arrived.writer)
        await serve(unheard)
        arrived.reset()
        return False

    async def _serve(self, arrived: Arrived) -> bool:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.configured is not None and "/config" in arrived.line:
                self.asked.append("GET /api/v1/config")
                return await self.configured(arrived)
            return await self._answer(arrived)
        finally:
            self.at_once -= 1

    async def _answer(self, arrived: Arrived) -> bool:
        method, target, _ = arrived.line.split(" ")
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = query.get("path", "")
        place = unquote(parts.path).removeprefix(f"/api/v1/repositories/{REPOSITORY}")
        self.asked.append(f"{method} {place}")
        self.asked_at.append(time.monotonic())
        if place.endswith("/objects") and method == "GET":
            if self.downloading is not None:
                return await self.downloading(arrived)
            return await self.give(arrived, self.objects[path])
        if place.endswith("/objects"):
            if self.uploading is not None:
                return await self.uploading(arrived)
            self.objects[path] = await arrived.read_body()
            await self.say(arrived, self.stats(path))
            return True
        body = await arrived.read_body()
        refusal = self._refusal(method, place, path)
        if refusal is not None:
            status, message = refusal
            await arrived.answer(json.dumps({"message": message}).encode(), status)
            return True
        content: dict[str, object] = json.loads(body or b"{}")
        await self.say(arrived, self._said(method, place, query, content))
        return True

    def _refusal(self, method: str, place: str, path: str) -> tuple[str, str] | None:
        """What is refused: an address that was linked before, or a join of parts for now."""
        if method == "PUT" and place.endswith("/backing") and path not in self.parts:
            return "400 Bad Request", "link address not found"
        if method == "PUT" and place.endswith("/pmpu/u1") and self.joins_refused:
            self.joins_refused -= 1
            return "429 Too Many Requests", "too many requests"
        return None

    def _said(
        self, method: str, place: str, query: dict[str, str], content: dict[str, object]
    ) -> dict[str, object]:
        path = query.get("path", "")
        if place == "/api/v1/config":
            signs = {"pre_sign_support": self.signs, "pre_sign_multipart_upload": self.signs}
            return {"storage_config": {**signs, "blockstore_type": self.blockstore_type}}
        if not place:
            return {"storage_namespace": NAMESPACE}
        if place.endswith("/stat"):
            return self.stats(path, signed="presign" in query)
        if not place.endswith("/backing"):
            return self._said_of_others(method, place, path, content)
        if method == "GET":
            return {"physical_address": "s3://x", "presigned_url": self._signed(path)}
        self.objects[path] = self.parts.pop(path)
        assert content["checksum"] == md5_of(self.objects[path])
        return self.stats(path)

    def _said_of_others(
        self, method: str, place: str, path: str, content: dict[str, object]
    ) -> dict[str, object]:
        if place.endswith("/user_metadata"):
            self.described[path] = content["set"]
            return {}
        if place.endswith("/pmpu"):
            return {"upload_id": "u1", "physical_address": "s3://x", "presigned_urls": []}
        if re.search(r"/parts/\d+$", place):
            return {"presigned_url": self._signed(f"{path}/{place.rpartition('/')[2]}")}
        if method == "DELETE":
            self.parts.clear()
            return {}
        numbers = sorted(int(name.rpartition("/")[2]) for name in self.parts)
        self.objects[path] = b"".join(self.parts.pop(f"{path}/{number}") for number in numbers)
        return {**self.stats(path), "checksum": f"opaque-{len(numbers)}"}

    def stats(self, path: str, *, signed: bool = False) -> dict[str, object]:
        """One object as lakeFS shows it."""
        where = "s3://elsewhere/x" if self.imported else f"{NAMESPACE}/data/x"
        content = self.objects[path]
        return {
            "path": path,
            "physical_address": self._signed(path) if signed else where,
            "checksum": md5_of(content),
            "size_bytes": len(content),
            "mtime": 0,
        }

    def _signed(self, path: str) -> str:
        """An address that is good for one request, as one that lives for minutes."""
        return f"{self.store_url}/{path}?signature={len(self.asked)}"

    async def _serve_store(self, arrived: Arrived) -> bool:
        """An address that was used before has expired."""
        if self.stored is not None:
            return await self.stored(arrived)
        return await self.store_well(arrived)

    async def store_well(self, arrived: Arrived) -> bool:
        """Answer as a block store that is well."""
        method, target, _ = arrived.line.split(" ")
        path = unquote(urlsplit(target).path).removeprefix("/")
        if target in self.used_addresses:
            await arrived.answer(b"<Error>expired</Error>", "403 Forbidden")
            return False
        self.used_addresses.add(target)
        if method == "GET":
            return await self.give(arrived, self.objects[path])
        self.parts[path] = await arrived.read_body()
        await arrived.answer(b"", "200 OK", 'ETag: "no-md5-at-all"')
        return True

    async def give(self, arrived: Arrived, content: bytes) -> bool:
        """Answer with a content, or with the range that was asked for."""
        if "range" not in arrived.headers:
            await arrived.answer(content)
            return True
        first, _, last = arrived.headers["range"].removeprefix("bytes=").partition("-")
        stated = f"Content-Range: bytes {first}-{last}/{len(content)}"
        piece = content[int(first) : int(last) + 1]
        await arrived.answer(piece, "206 Partial Content", stated)
        return True

    async def say(self, arrived: Arrived, document: dict[str, object]) -> None:
        """Answer with JSON."""
        await arrived.answer(json.dumps(document).encode(), "200 OK")


@dataclass
class Bench:
    """A transport and the two servers it moves objects of."""

    lakefs: Lakefs
    server: ScriptedServer
    store: ScriptedServer
    transport: LakeFSObjects
    place: Path

    def order(self, path: str, checksum: str | None = None) -> FetchOrder:
        """An order for an object as a listing shows it."""
        content = self.lakefs.objects[path]
        checksum = md5_of(content) if checksum is None else checksum
        return FetchOrder(ObjectEntry(path, checksum, len(content)), self.place / f"t-{path}")

    async def fetch(self, *orders: FetchOrder) -> list[bytes]:
        """Fetch and give what was written."""
        fetched = await self.transport.fetch(REPOSITORY, BRANCH, orders)
        assert [one.md5 for one in fetched] == [md5_of(_read(one)) for one in fetched]
        return [_read(one) for one in fetched]

    async def upload(
        self, path: str, content: bytes, metadata: Mapping[str, str] = MappingProxyType({})
    ) -> ObjectEntry:
        """Write a local file as an object."""
        source = self.place / f"s-{path}"
        source.write_bytes(content)
        uploads = [ObjectUpload(path, source, metadata=metadata)]
        (entry,) = await self.transport.store(REPOSITORY, BRANCH, uploads)
        return entry

    def left(self) -> list[str]:
        """What a failed fetch left behind."""
        return [path.name for path in self.place.iterdir() if not path.name.startswith("s-")]


@asynccontextmanager
async def transfer_bench(
    place: Path,
    *,
    tls: Path | None = None,
    route: RouteChoice = RouteChoice.AUTO,
    at_once: int = 8,
    endpoint_url: str | None = None,
    terms: HttpTerms | None = None,
    retry_seconds: float | None = 0.3,
    silence_seconds: float = 10.0,
) -> AsyncGenerator[Bench]:
    """Two servers, and a transport that is impatient, unless it has a worker's retry terms."""
    lakefs, client = Lakefs(), None
    retry = RetryTerms()
    if retry_seconds is not None:
        retry = RetryTerms(first_pause_seconds=0.02, seconds_max=retry_seconds)
    try:
        async with (
            scripted(lakefs.serve, tls) as server,
            scripted(lakefs.serve_store, tls) as store,
        ):
            lakefs.store_url = store.url
            client = LakeFSClient(
                LakeFSConfiguration(
                    endpoint_url=endpoint_url or server.url,
                    access_key_id="id",
                    secret_access_key="secret",
                    http=terms or HttpTerms(ca_file=tls, connect_seconds=2.0),
                    route=route,
                    requests_concurrent_max=at_once,
                    answer_seconds=silence_seconds,
                    retry=retry,
                )
            )
            yield Bench(lakefs, server, store, LakeFSObjects(client), place)
    finally:
        # After the servers: a connection with bytes left to send closes when its other end does.
        if client is not None:
            await asyncio.to_thread(client.close)


def _read(one: Fetched) -> bytes:
    return one.order.target.read_bytes()
