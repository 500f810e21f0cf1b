"""How much of this process a transfer takes: open files and memory, whatever it moves."""

import hashlib
import os
import threading
import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import LakeFSConfiguration, RouteChoice
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.domain.lakefs import RepositoryId
from perago.ports.objects import FetchOrder, ObjectEntry

REPOSITORY = RepositoryId("repository")
AT_ONCE = 16
# A connection has two ends in this process, and a file is written beside it.
DESCRIPTORS_MAX = 3 * AT_ONCE + 10
LARGE = 96 * 1024 * 1024
MEMORY_MAX = 16 * 1024 * 1024
ZEROS = bytes(64 * 1024)


class Zeros(BaseHTTPRequestHandler):
    """Answers every read with as many zeros as the path's last word says."""

    protocol_version = "HTTP/1.1"
    most_open: ClassVar[int] = 0

    def do_GET(self) -> None:
        """All of them, or the range that was asked for."""
        self.note()
        end = int(self.path.rpartition("-")[2])
        start, status = 0, 200
        if asked := self.headers.get("Range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end, status = int(first), int(last) + 1, 206
        self.send_response(status)
        if asked:
            whole = self.path.rpartition("-")[2]
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{whole}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        while start < end:
            piece = ZEROS[: end - start]
            self.wfile.write(piece)
            start += len(piece)

    @classmethod
    def note(cls) -> None:
        """How many descriptors are open while this one is asked."""
        cls.most_open = max(cls.most_open, len(os.listdir("/proc/self/fd")))  # noqa: PTH208

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@contextmanager
def transport_to_zeros() -> Generator[LakeFSObjects]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Zeros) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        configuration = LakeFSConfiguration(
            endpoint_url=f"http://127.0.0.1:{server.server_port}",
            access_key_id="id",
            secret_access_key="secret",
            route=RouteChoice.API,
            requests_concurrent_max=AT_ONCE,
        )
        client = LakeFSClient(configuration)
        transport = LakeFSObjects(client)
        try:
            yield transport
        finally:
            client.close()
            server.shutdown()
            thread.join()


def zeros_at(place: Path, name: str, size: int) -> FetchOrder:
    md5 = hashlib.md5(usedforsecurity=False)
    for start in range(0, size, len(ZEROS)):
        md5.update(ZEROS[: size - start])
    return FetchOrder(ObjectEntry(f"{name}-{size}", md5.hexdigest(), size), place / name)


@pytest.mark.parametrize("size", [10, 300_000], ids=["in the loop", "by hand"])
async def test_open_files_are_bounded_by_the_requests_at_once(tmp_path: Path, size: int) -> None:
    orders = [zeros_at(tmp_path, f"f{number}", size) for number in range(600)]
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - descriptors are no paths
    Zeros.most_open = 0
    with transport_to_zeros() as transport:
        fetched = await transport.fetch(REPOSITORY, "main", orders)
    assert [one.order for one in fetched] == orders
    assert Zeros.most_open <= before + DESCRIPTORS_MAX


@pytest.mark.parametrize("objects", [1, 8], ids=["in ranges", "each in one piece"])
async def test_memory_does_not_follow_the_size_of_objects(tmp_path: Path, objects: int) -> None:
    orders = [zeros_at(tmp_path, f"f{number}", LARGE // objects) for number in range(objects)]
    with transport_to_zeros() as transport:
        tracemalloc.start()
        try:
            await transport.fetch(REPOSITORY, "main", orders)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert sum(order.target.stat().st_size for order in orders) == LARGE
    assert peak < MEMORY_MAX
