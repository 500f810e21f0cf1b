"""Kept HTTP/1.1 connections, handed out one thread at a time.

Knows requests and answers; what they are for, and whether to try again, is decided elsewhere.
"""

import http.client
import select
import ssl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, final
from urllib.parse import urlsplit

from perago.adapters.transfer.configuration import TransferConfiguration
from perago.adapters.transfer.failures import NETWORK_ERRORS, AnsweredError, BrokenError

_SUCCESS = range(200, 300)


class Body(Protocol):
    """What is sent after the headers."""

    @property
    def size(self) -> int:
        """Bytes to send, as announced."""
        ...

    def send(self, connection: http.client.HTTPConnection) -> None:
        """Send them; the connection's own errors pass through."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `target` is path and query as they stand on the wire."""

    method: str
    origin: str
    target: str
    headers: Mapping[str, str]
    body: Body | None = None

    def head(self) -> bytes:
        """A request without a body as it stands on the wire."""
        host = self.origin.partition("://")[2]
        headers = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        return f"{self.method} {self.target} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n".encode()


@dataclass(frozen=True, slots=True)
class Inline:
    """A body that is in memory."""

    content: bytes

    @property
    def size(self) -> int:
        """Its length."""
        return len(self.content)

    def send(self, connection: http.client.HTTPConnection) -> None:
        """Send it at once."""
        connection.send(self.content)


@final
class Connections:
    """Idle connections by origin, newest first."""

    def __init__(self, configuration: TransferConfiguration) -> None:
        self._configuration = configuration
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}
        self._lock = Lock()
        self._tls: ssl.SSLContext | None = None
        self._is_closed = False

    @property
    def answer_seconds(self) -> float:
        """How long a connection may stay silent."""
        return self._configuration.answer_seconds

    @contextmanager
    def exchange(self, request: Request) -> Generator[http.client.HTTPResponse]:
        """Send a request and give its successful answer; the body is read inside the block."""
        connection, answer = self._ask(request)
        try:
            _check(answer)
            yield answer
        except NETWORK_ERRORS as error:
            connection.close()
            raise BrokenError(_reason(error)) from error
        except AnsweredError:
            self._give_back(request.origin, connection, answer)
            raise
        except BaseException:
            connection.close()
            raise
        self._give_back(request.origin, connection, answer)

    def open(self, origin: str) -> http.client.HTTPConnection:
        """A fresh connection; nothing was sent when it fails."""
        fresh = self._new(origin)
        try:
            fresh.connect()
        except NETWORK_ERRORS as error:
            fresh.close()
            raise BrokenError(_reason(error), sent=False) from error
        fresh.sock.settimeout(self._configuration.answer_seconds)
        return fresh

    def take(self, origin: str) -> http.client.HTTPConnection | None:
        """A kept connection that the server has not closed, as far as can be seen."""
        while (kept := self._take_any(origin)) is not None:
            readable = select.poll()
            readable.register(kept.sock, select.POLLIN)
            if not readable.poll(0):
                return kept
            kept.close()
        return None

    def keep(self, origin: str, connection: http.client.HTTPConnection) -> None:
        """Keep a connection on which nothing is under way; after the end it is closed."""
        connection.sock.settimeout(self._configuration.answer_seconds)
        with self._lock:
            if not self._is_closed:
                self._idle.setdefault(origin, []).append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close what is idle, and what is given back from now on."""
        with self._lock:
            self._is_closed = True
            idle = [connection for kept in self._idle.values() for connection in kept]
            self._idle.clear()
        for connection in idle:
            connection.close()

    def _ask(self, request: Request) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A kept connection may have been closed by the server meanwhile: then a fresh one."""
        kept = self._take_any(request.origin)
        if kept is not None:
            try:
                return kept, _sent(kept, request)
            except (ConnectionError, http.client.RemoteDisconnected):
                kept.close()
            except NETWORK_ERRORS as error:
                kept.close()
                raise BrokenError(_reason(error)) from error
            except BaseException:
                kept.close()
                raise
        fresh = self.open(request.origin)
        try:
            return fresh, _sent(fresh, request)
        except NETWORK_ERRORS as error:
            fresh.close()
            raise BrokenError(_reason(error)) from error
        except BaseException:
            fresh.close()
            raise

    def _new(self, origin: str) -> http.client.HTTPConnection:
        parts = urlsplit(origin)
        seconds = self._configuration.connect_seconds
        if parts.scheme == "https":
            if self._tls is None:
                self._tls = _tls(self._configuration)
            return http.client.HTTPSConnection(parts.netloc, timeout=seconds, context=self._tls)
        return http.client.HTTPConnection(parts.netloc, timeout=seconds)

    def _take_any(self, origin: str) -> http.client.HTTPConnection | None:
        with self._lock:
            idle = self._idle.get(origin)
            return idle.pop() if idle else None

    def _give_back(
        self,
        origin: str,
        connection: http.client.HTTPConnection,
        answer: http.client.HTTPResponse,
    ) -> None:
        if not answer.isclosed() or answer.will_close:
            connection.close()
            return
        self.keep(origin, connection)


def _sent(connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
    connection.putrequest(request.method, request.target, skip_accept_encoding=True)
    for name, value in request.headers.items():
        connection.putheader(name, value)
    if request.body is None:
        connection.endheaders()
        return connection.getresponse()
    connection.putheader("Content-Length", str(request.body.size))
    connection.endheaders()
    try:
        request.body.send(connection)
    except ConnectionError:
        # A server that refuses closes before it has read everything; its answer may be there.
        answer = connection.getresponse()
        answer.will_close = True
        return answer
    return connection.getresponse()


def _check(answer: http.client.HTTPResponse) -> None:
    if answer.status not in _SUCCESS:
        raise AnsweredError(answer.status, answer.read())


def _tls(configuration: TransferConfiguration) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=None if configuration.ca_file is None else str(configuration.ca_file)
    )
    if not configuration.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
