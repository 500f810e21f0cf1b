"""The connection the SDK sends over: TLS, proxy, time-outs, and whether a request left.

The SDK's own connection knows none of them: it replaces itself on a broken connection (settings
lost, requests of other threads cut off), re-sends PUT and DELETE, and tells a refused connection
from a lost answer only by text. Its errors never reach that code, because none of httpx's own
errors leaves this one. Must not know Conductor.
"""

import ssl
import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import httpx

from perago.adapters.conductor.api_request import NoAnswerError, NotSentError
from perago.adapters.conductor.connection_settings import ConductorSettings

# Below the idle time-outs of servers and balancers: a connection they closed loses an answer.
IDLE_SECONDS_MAX = 5.0
NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
    httpx.InvalidURL,
)
Parameters: TypeAlias = Sequence[tuple[str, str]] | None


class HttpConnection:
    """What the SDK calls in the place of an httpx client."""

    is_closed = False  # else the SDK would replace it by a connection without these settings

    def __init__(
        self, settings: ConductorSettings, transport: httpx.BaseTransport | None = None
    ) -> None:
        try:
            self._client = _client(settings, transport)
        except (OSError, ValueError, httpx.InvalidURL) as error:
            raise NotSentError(f"TLS files or proxy cannot be used: {error}") from error

    def request(  # the signature is httpx's
        self,
        method: str,
        url: str,
        *,
        content: str | bytes | None = None,
        params: Parameters = None,
        headers: Mapping[str, str] | None = None,
        timeout: object = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        """Send one request and read its answer."""
        allowed = self._client.timeout if not isinstance(timeout, httpx.Timeout) else timeout
        try:
            request = self._client.build_request(
                method,
                url,
                content=content,
                params=list(params) if params else None,
                headers=headers,
                timeout=allowed,
            )
            return self._answer(request, allowed.read)
        except NOT_SENT as error:
            raise NotSentError(_said(error)) from error
        except httpx.HTTPError as error:
            raise NoAnswerError(_said(error)) from error

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def _answer(self, request: httpx.Request, seconds: float | None) -> httpx.Response:
        """Read the answer; httpx bounds each read, this bounds them together."""
        response = self._client.send(request, stream=True)
        try:
            deadline = time.monotonic() + (seconds or 0.0)
            chunks: list[bytes] = []
            for chunk in response.iter_bytes():
                chunks.append(chunk)
                if seconds is not None and time.monotonic() > deadline:
                    raise httpx.ReadTimeout(f"answer not complete after {seconds:g} s")
        finally:
            response.close()
        described = ("content-encoding", "content-length")  # of the bytes that were unpacked
        return httpx.Response(
            response.status_code,
            headers=[pair for pair in response.headers.items() if pair[0] not in described],
            content=b"".join(chunks),
            request=request,
        )


def _client(settings: ConductorSettings, transport: httpx.BaseTransport | None) -> httpx.Client:
    threads = settings.call_threads + settings.poll_threads
    return httpx.Client(
        verify=_tls(settings),
        proxy=settings.proxy,
        timeout=httpx.Timeout(
            settings.request_timeout_seconds, connect=settings.connect_timeout_seconds
        ),
        limits=httpx.Limits(
            max_connections=threads,
            max_keepalive_connections=threads,
            keepalive_expiry=IDLE_SECONDS_MAX,
        ),
        transport=transport,
        follow_redirects=False,  # a redirected POST becomes a GET
    )


def _tls(settings: ConductorSettings) -> ssl.SSLContext | bool:
    if not settings.verify_tls:
        return False
    if settings.ca_file is None and settings.client_certificate is None:
        return True
    context = ssl.create_default_context(cafile=settings.ca_file)
    if settings.client_certificate is not None:
        context.load_cert_chain(settings.client_certificate, settings.client_key)
    return context


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
