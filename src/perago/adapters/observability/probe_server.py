"""Answers probes and metrics over HTTP on one address: four paths, GET only, no body read.

What is true is asked of functions; nothing is known of workers. One request a connection.

A web page that a developer has open may have its own name point at this address (DNS rebinding),
and its script could then read the metrics. The browser sends that name as Host, so only names are
answered that cannot be registered: addresses, names without a dot, names below `.svc`, `.local`,
`.internal` and `.localhost`, this machine's own name, and the name that is listened on. A kubelet
and Prometheus' pod discovery send the pod's address.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

# A client that sends no request, or an endless one, must not keep a connection or memory of the
# worker. A kubelet gives up after one second by default; a request head has a few hundred bytes.
REQUEST_SECONDS_MAX = 5.0
REQUEST_BYTES_MAX = 8192
PRIVATE_ENDS = (".svc", ".local", ".internal", ".localhost")
# Prometheus chooses its parser by this.
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NOT_PRIVATE = (
    "the Host of this request is not a private name of this worker: ask by IP address or by"
    " localhost, or put the name into PERAGO_PROBE_ADDRESS\n"
)


@asynccontextmanager
async def probe_server(
    host: str,
    port: int,
    probes: Mapping[str, Callable[[], bool]],
    metrics: Callable[[], str],
    notes: Callable[[], Sequence[str]] = tuple,  # none
) -> AsyncGenerator[int]:
    """Serve for the block; the port that was taken.

    `probes` has a question for each path, `notes` lines for people below the answer of a probe.
    """
    own_names = frozenset({host.lower(), socket.gethostname().lower()})

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                with contextlib.suppress(asyncio.IncompleteReadError):
                    head = await reader.readuntil(b"\r\n\r\n")
                    text = head.decode("latin-1")
                    writer.write(_answer(text, probes, metrics, notes, own_names))
                    await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


def _answer(
    head: str,
    probes: Mapping[str, Callable[[], bool]],
    metrics: Callable[[], str],
    notes: Callable[[], Sequence[str]],
    own_names: frozenset[str],
) -> bytes:
    method, _, rest = head.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if method not in {"GET", "HEAD"}:
        return _response(HTTPStatus.METHOD_NOT_ALLOWED, "GET only\n")
    if not all(_is_private(name, own_names) for name in _hosts(head)):
        return _response(HTTPStatus.MISDIRECTED_REQUEST, NOT_PRIVATE)
    if path == "/metrics":
        return _response(HTTPStatus.OK, metrics(), METRICS_TYPE)
    probe = probes.get(path)
    if probe is None:
        return _response(HTTPStatus.NOT_FOUND, "not found\n")
    lines = "".join(f"{line}\n" for line in notes())
    if probe():
        return _response(HTTPStatus.OK, f"ok\n{lines}")
    return _response(HTTPStatus.SERVICE_UNAVAILABLE, f"not ok\n{lines}")


def _hosts(head: str) -> list[str]:
    """Every Host that was sent, without its port; none from clients of HTTP/1.0, and no browser."""
    found: list[str] = []
    for line in head.split("\r\n")[1:]:
        field, _, value = line.partition(":")
        if field.strip().lower() == "host":
            name = value.strip().lower()
            ends_with_port = name.rpartition(":")[2].isdigit() and not name.endswith("]")
            name = name.rpartition(":")[0] if ends_with_port else name
            found.append(name.strip("[]").removesuffix("."))
    return found


def _is_private(name: str, own_names: frozenset[str]) -> bool:
    """Whether this name cannot be registered by others."""
    if name in own_names or "." not in name or name.endswith(PRIVATE_ENDS):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _response(status: HTTPStatus, text: str, content_type: str = "text/plain") -> bytes:
    body = text.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body
