"""The bare loop of the chosen client: http.client in threads, a listing, one GET a file.

Nothing is retried, indexed or cached. Bytes are compared with their MD5, as whoever promises exact
bytes must; BENCH_UNCHECKED leaves that out, and what is left is the client and the server.
"""

import base64
import hashlib
import http.client
import itertools
import json
import os
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.subjects.assignment import Assignment, tell

BUFFER_BYTES = 1024 * 1024


class Loop:
    """One download."""

    def __init__(self, told: Assignment) -> None:
        pair = f"{told.access_key_id}:{told.secret_access_key}".encode()
        self._told = told
        self._checks = "BENCH_UNCHECKED" not in os.environ
        self._headers = {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        self._refs = f"/api/v1/repositories/{told.repository}/refs/{told.commit}/objects"

    def run(self, lanes: int) -> None:
        """List, then fetch in lanes."""
        paths = self._listed()
        for parent in {path.rpartition("/")[0] for path in paths}:
            (self._told.directory / parent).mkdir(parents=True, exist_ok=True)
        left = iter(paths)
        lock = threading.Lock()

        def lane() -> None:
            connection = self._connection()
            while True:
                with lock:
                    path = next(left, None)
                if path is None:
                    return
                self._fetch(connection, path)

        threads = [threading.Thread(target=lane) for _ in range(lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self._told.endpoint).netloc)

    def _listed(self) -> list[str]:
        connection, after = self._connection(), ""
        paths: list[str] = []
        for _ in itertools.count():
            target = f"{self._refs}/ls?amount=1000&prefix=ws/&after={quote(after)}"
            connection.request("GET", target, headers=self._headers)
            page = json.loads(connection.getresponse().read())
            paths.extend(str(entry["path"]) for entry in page["results"])
            if not page["pagination"]["has_more"]:
                break
            after = paths[-1]
        return paths

    def _fetch(self, connection: http.client.HTTPConnection, path: str) -> None:
        target = f"{self._refs}?path={quote(path, safe='')}"
        connection.request("GET", target, headers=self._headers)
        answer = connection.getresponse()
        assert answer.status == http.client.OK, answer.status
        digest = hashlib.md5(usedforsecurity=False)
        buffer = memoryview(bytearray(min(BUFFER_BYTES, (answer.length or 0) + 1)))
        with (self._told.directory / path).open("xb", buffering=0) as file:
            while count := answer.readinto(buffer):
                file.write(buffer[:count])
                if self._checks:
                    digest.update(buffer[:count])
        if self._checks:
            assert digest.hexdigest() == (answer.getheader("ETag") or "").strip('"')


def main() -> None:
    """Measure one download."""
    told = Assignment()
    started = time.perf_counter()
    Loop(told).run(lanes=int(os.environ["BENCH_LANES"]))
    tell("cold", time.perf_counter() - started)


main()
