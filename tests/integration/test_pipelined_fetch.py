"""Requests ahead of their answers, against a server that answers by a script."""

import hashlib
import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pytest

from perago.adapters.system.concurrency import AsyncioConcurrency
from perago.adapters.transfer.configuration import RouteChoice, TransferConfiguration
from perago.adapters.transfer.connections import Connections, Request
from perago.adapters.transfer.http_transport import HttpTransport
from perago.adapters.transfer.pace import Pace
from perago.adapters.transfer.pipelined_fetch import PipelinedFetch
from perago.domain.references import RepositoryId
from perago.ports.errors import LocalDiskError
from perago.ports.object_transport import FetchOrder, nobody_counts
from perago.ports.objects import ObjectEntry

FILES = {f"file {number:03}": b"%d." % number * (number % 90) for number in range(300)}


def md5_of(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


EVERYTHING = dict(enumerate(md5_of(body) for body in FILES.values()))


@dataclass
class Script:
    """How a server answers: `answer` gives the wire for the n-th request of a connection."""

    answer: Callable[[str, int], bytes | None]
    certificate: Path | None = None
    requests: list[str] = field(default_factory=list[str])
    connections: int = 0

    def over_the_wire(self, connection: socket.socket) -> socket.socket:
        """A connection as its two ends speak on it."""
        self.connections += 1
        if self.certificate is None:
            return connection
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        return context.wrap_socket(connection, server_side=True)


def good(path: str, _number: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(FILES[path]) + FILES[path]


def closing_after(count: int, *, announced: bool) -> Callable[[str, int], bytes | None]:
    def answer(path: str, number: int) -> bytes | None:
        if number > count:
            return None
        wire = good(path, number)
        last = announced and number == count
        return wire.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) if last else wire

    return answer


def served(script: Script, connection: socket.socket) -> None:
    number = 0
    # A client that is stopped resets what it no longer wants.
    with (
        script.over_the_wire(connection) as spoken,
        suppress(ConnectionError),
        spoken.makefile("rb") as wire,
    ):
        for line in wire:
            if line.startswith(b"GET "):
                target = line.split()[1].decode()
                path = unquote(target.rpartition("path=")[2].removeprefix("/"))
                number += 1
                script.requests.append(path)
                answer = script.answer(path, number)
                if answer is None:
                    return
                spoken.sendall(answer)


@contextmanager
def server(script: Script) -> Generator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=served, args=(script, connection), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        scheme = "http" if script.certificate is None else "https"
        yield "{}://{}:{}".format(scheme, *listening.getsockname())
        listening.shutdown(socket.SHUT_RDWR)


def orders_below(place: Path) -> list[FetchOrder]:
    return [
        FetchOrder(ObjectEntry(path, md5_of(body), len(body)), place / str(number))
        for number, (path, body) in enumerate(FILES.items())
    ]


def fetched(script: Script, place: Path, answer_seconds: float = 5.0) -> dict[int, str]:
    with server(script) as origin:
        configuration = TransferConfiguration(
            endpoint_url=origin,
            access_key_id="id",
            secret_access_key="secret",
            answer_seconds=answer_seconds,
            ca_file=script.certificate,
        )
        connections = Connections(configuration)
        orders = orders_below(place)

        def ask(order: FetchOrder) -> Request:
            return Request("GET", origin, "/" + order.entry.path.replace(" ", "%20"), {})

        fetch = PipelinedFetch(connections, Pace(16), orders, ask, nobody_counts)
        try:
            fetch.run()
        finally:
            connections.close()
    bodies = list(FILES.values())
    for number in fetch.landed:
        assert (place / str(number)).read_bytes() == bodies[number]
    present = {int(path.name) for path in place.iterdir()}
    assert present == set(fetch.landed), "nothing is there that was not told"
    return {number: fetched.md5 for number, fetched in fetch.landed.items()}


def test_every_object_lands_and_requests_run_ahead(tmp_path: Path) -> None:
    script = Script(good)
    assert fetched(script, tmp_path) == EVERYTHING
    assert sorted(script.requests) == sorted(FILES)
    assert script.connections <= 16


def test_the_same_over_tls(tmp_path: Path, certificate: Path) -> None:
    place = tmp_path / "files"
    place.mkdir()
    assert fetched(Script(good, certificate), place) == EVERYTHING


@pytest.mark.parametrize("announced", [True, False])
def test_a_server_that_ends_connections_is_asked_on_new_ones(
    tmp_path: Path,
    announced: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    script = Script(closing_after(7, announced=announced))
    assert fetched(script, tmp_path) == EVERYTHING
    assert script.connections >= len(FILES) // 7


def test_a_connection_that_arrives_after_the_end_is_closed() -> None:
    with server(Script(good)) as origin:
        configuration = TransferConfiguration(
            endpoint_url=origin, access_key_id="id", secret_access_key="secret"
        )
        connections = Connections(configuration)
        late = connections.open(origin)
        connections.close()
        connections.keep(origin, late)
    assert late.sock is None


def test_a_throttled_object_is_left_and_the_others_come(tmp_path: Path) -> None:
    refused = "file 100"

    def answer(path: str, number: int) -> bytes:
        busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"
        return busy if path == refused else good(path, number)

    landed = fetched(Script(answer), tmp_path)
    assert EVERYTHING.items() - landed.items() == {(100, EVERYTHING[100])}


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("missing", b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno"),
        ("chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("other bytes", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"),
        ("half a body", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf"),
        ("silence", b""),
    ],
)
def test_what_goes_wrong_is_left_out_and_nothing_stands_in_its_place(
    tmp_path: Path, name: str, wire: bytes
) -> None:
    def answer(path: str, number: int) -> bytes:
        return wire if path == "file 020" else good(path, number)

    landed = fetched(Script(answer), tmp_path, answer_seconds=1.0)
    assert 20 not in landed, name
    assert landed.items() <= EVERYTHING.items()


def test_nobody_at_the_address_leaves_everything(tmp_path: Path) -> None:
    assert fetched(Script(lambda _path, _number: None), tmp_path) == {}


def test_a_disk_that_refuses_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "5").touch()
    with pytest.raises(LocalDiskError, match="file exists"):
        fetched(Script(good), tmp_path)


async def test_a_burst_of_503_is_waited_out(tmp_path: Path) -> None:
    left = iter(range(200))

    def answer(path: str, number: int) -> bytes:
        busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"
        return good(path, number) if next(left, None) is None else busy

    concurrency = AsyncioConcurrency()
    with server(Script(answer)) as origin:
        transport = HttpTransport(
            TransferConfiguration(
                endpoint_url=origin,
                access_key_id="id",
                secret_access_key="secret",
                route=RouteChoice.API,
                first_pause_seconds=0.05,
                tries_max=20,
            ),
            concurrency,
        )
        found = await transport.fetch(RepositoryId("repo"), "main", orders_below(tmp_path))
        transport.close()
    concurrency.close()
    assert dict(enumerate(one.md5 for one in found)) == EVERYTHING
    assert next(left, None) is None, "the burst was met"
