"""One HTTP client in a loop: fetch every object, write it, compare its MD5; then store them again.

Runs in an environment that has the client; `http.client` is in every one.
"""

import asyncio
import base64
import hashlib
import http.client
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.subjects.assignment import Assignment, tell

TOLD = Assignment()
LANES = int(os.environ["BENCH_LANES"])
PIECE = 1024 * 1024
PAIR = f"{TOLD.access_key_id}:{TOLD.secret_access_key}".encode()
AUTHORIZATION = f"Basic {base64.b64encode(PAIR).decode()}"
OBJECTS = f"/api/v1/repositories/{TOLD.repository}/refs/{TOLD.commit}/objects"
BRANCH = f"/api/v1/repositories/{TOLD.repository}/branches/main/objects"
BINARY = "application/octet-stream"


class Landing:
    """One file on its way down."""

    def __init__(self, path: str) -> None:
        self._digest = hashlib.md5(usedforsecurity=False)
        self._file = (TOLD.directory / path).open("xb", buffering=0)

    def write(self, piece: Any) -> None:  # noqa: ANN401
        """Take a piece."""
        self._digest.update(piece)
        self._file.write(piece)

    def end(self, expected: str) -> None:
        """Close and compare."""
        self._file.close()
        assert self._digest.hexdigest() == expected


def get_target(path: str) -> str:
    return f"{OBJECTS}?path={quote(path, safe='')}"


def put_target(path: str) -> str:
    return f"{BRANCH}?path={quote(f'again/{path}', safe='')}"


def listed() -> list[tuple[str, str]]:
    connection = http.client.HTTPConnection(urlsplit(TOLD.endpoint).netloc)
    found: list[tuple[str, str]] = []
    more, after = True, ""
    while more:
        target = f"{OBJECTS}/ls?amount=1000&prefix=ws/&after={quote(after)}"
        connection.request("GET", target, headers={"Authorization": AUTHORIZATION})
        page = json.loads(connection.getresponse().read())
        found.extend((entry["path"], entry["checksum"]) for entry in page["results"])
        more, after = page["pagination"]["has_more"], found[-1][0]
    return found


def in_threads(
    files: list[tuple[str, str]], make: Callable[[], Callable[[str, str], None]]
) -> None:
    left: Iterator[tuple[str, str]] = iter(files)
    lock = threading.Lock()

    def lane() -> None:
        move = make()
        while True:
            with lock:
                found = next(left, None)
            if found is None:
                return
            move(*found)

    threads = [threading.Thread(target=lane) for _ in range(LANES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def standard_library(files: list[tuple[str, str]], *, up: bool) -> None:
    def make() -> Callable[[str, str], None]:
        connection = http.client.HTTPConnection(urlsplit(TOLD.endpoint).netloc)
        headers = {"Authorization": AUTHORIZATION}
        buffer = memoryview(bytearray(PIECE))

        def down_one(path: str, checksum: str) -> None:
            connection.request("GET", get_target(path), headers=headers)
            answer = connection.getresponse()
            landing = Landing(path)
            while count := answer.readinto(buffer):
                landing.write(buffer[:count])
            landing.end(checksum)

        def up_one(path: str, _checksum: str) -> None:
            with (TOLD.directory / path).open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                connection.putrequest("POST", put_target(path))
                sent = {**headers, "Content-Type": BINARY, "Content-Length": str(size)}
                for name, value in sent.items():
                    connection.putheader(name, value)
                connection.endheaders()
                connection.sock.sendfile(file)
            assert connection.getresponse().read()

        return up_one if up else down_one

    in_threads(files, make)


def pyreqwest(files: list[tuple[str, str]], *, up: bool) -> None:
    client_module: Any = import_module("pyreqwest.client")
    client = client_module.SyncClientBuilder().build()

    def down_one(path: str, checksum: str) -> None:
        request = client.get(TOLD.endpoint + get_target(path))
        landing = Landing(path)
        with request.header("Authorization", AUTHORIZATION).build_streamed() as answer:
            while piece := answer.body_reader.read(PIECE):
                landing.write(piece)
        landing.end(checksum)

    def up_one(path: str, _checksum: str) -> None:
        content = (TOLD.directory / path).read_bytes()
        request = client.post(TOLD.endpoint + put_target(path)).header("Content-Type", BINARY)
        request = request.header("Authorization", AUTHORIZATION).body_bytes(content)
        assert request.build().send().bytes()

    in_threads(files, lambda: up_one if up else down_one)


async def aiohttp(files: list[tuple[str, str]], *, up: bool) -> None:
    module: Any = import_module("aiohttp")
    url: Any = import_module("yarl").URL
    left = iter(files)
    connector = module.TCPConnector(limit=LANES)
    headers = {"Authorization": AUTHORIZATION}
    async with module.ClientSession(connector=connector, headers=headers) as session:

        async def lane() -> None:
            for path, checksum in left:
                if up:
                    with (TOLD.directory / path).open("rb") as file:
                        target = url(TOLD.endpoint + put_target(path), encoded=True)
                        kind = {"Content-Type": BINARY}
                        async with session.post(target, data=file, headers=kind) as answer:
                            assert await answer.read()
                    continue
                target = url(TOLD.endpoint + get_target(path), encoded=True)
                async with session.get(target) as answer:
                    landing = Landing(path)
                    async for piece in answer.content.iter_chunked(PIECE):
                        landing.write(piece)
                    landing.end(checksum)

        await asyncio.gather(*(lane() for _ in range(LANES)))


async def obstore(files: list[tuple[str, str]], *, up: bool) -> None:
    module: Any = import_module("obstore")
    store = import_module("obstore.store").S3Store(
        TOLD.repository,
        endpoint=TOLD.endpoint,
        access_key_id=TOLD.access_key_id,
        secret_access_key=TOLD.secret_access_key,
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    left = iter(files)

    async def lane() -> None:
        for path, checksum in left:
            if up:
                await module.put_async(store, f"main/again/{path}", TOLD.directory / path)
                continue
            answer = await module.get_async(store, f"{TOLD.commit}/{path}")
            landing = Landing(path)
            async for piece in answer.stream(PIECE):
                landing.write(piece)
            landing.end(checksum)

    await asyncio.gather(*(lane() for _ in range(LANES)))


def main() -> None:
    """Measure one client both ways."""
    files = listed()
    for parent in {path.rpartition("/")[0] for path, _ in files}:
        (TOLD.directory / parent).mkdir(parents=True, exist_ok=True)
    threaded = {"http.client": standard_library, "pyreqwest": pyreqwest}
    looped = {"aiohttp": aiohttp, "obstore": obstore}
    for step, up in (("down", False), ("up", True)):
        started, processor = time.perf_counter(), time.process_time()
        if sys.argv[1] in threaded:
            threaded[sys.argv[1]](files, up=up)
        else:
            asyncio.run(looped[sys.argv[1]](files, up=up))
        tell(step, time.perf_counter() - started)
        tell(f"{step} cpu", time.process_time() - processor)


main()
