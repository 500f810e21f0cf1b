"""Requests to one Conductor over conductor-python's ApiClient, sent from a bounded thread pool.

Only the SDK's raw call is used: JSON goes through as it is (the SDK's models lose fields), with
its tokens and their renewal. Must not know what a request means.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, final

from perago.adapters.conductor.api_request import (
    ApiClient,
    ApiRequest,
    NoAnswerError,
    NotSentError,
    RefusedError,
    RequestFailedError,
)
from perago.adapters.conductor.connection_settings import (
    ConductorSettings,
    api_address,
    shown_address,
)
from perago.adapters.conductor.error_mapping import landing_page, world_error
from perago.adapters.conductor.http_connection import HttpConnection
from perago.adapters.conductor.sdk_import import sdk_client
from perago.ports.request_count import request_sent

ERROR_CHAIN_MAX = 10


@final
class SdkApiClient(ApiClient):
    """The SDK's client behind our door."""

    def __init__(
        self,
        settings: ConductorSettings,
        connect: Callable[[ConductorSettings], HttpConnection] = HttpConnection,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._url = api_address(settings.url)
        self._calls = ThreadPoolExecutor(settings.call_threads, "conductor-call")
        self._polls = ThreadPoolExecutor(settings.poll_threads, "conductor-poll")
        self._first = threading.Lock()
        self._connection: HttpConnection | None = None
        self._sdk: Any = None

    @property
    def address(self) -> str:
        return shown_address(self._url)

    async def call(self, request: ApiRequest) -> object:
        pool = self._polls if request.is_poll else self._calls
        request_sent()
        try:
            answer = await _joined(pool.submit(self._send, request))
        except RequestFailedError as failure:
            raise world_error(request, self.address, failure) from failure
        if isinstance(answer, str) and answer.lstrip().startswith("<"):
            raise landing_page(request, self.address)
        return answer or None if isinstance(answer, str) else answer

    def close(self) -> None:
        """Send nothing more; requests that have left are waited for."""
        for pool in (self._calls, self._polls):
            pool.shutdown(wait=True, cancel_futures=True)
        if self._connection is not None:
            self._connection.close()

    def _send(self, request: ApiRequest) -> object:
        """Send from a thread of the pool; a 401 is sent again once with a new token."""
        sdk = self._ready()
        try:
            return self._send_once(sdk, request)
        except RefusedError as refusal:
            # The SDK renews a token only for two error codes, and forgets it for good when one
            # renewal fails.
            if refusal.status != HTTPStatus.UNAUTHORIZED or not sdk.force_refresh_auth_token():
                raise
            return self._send_once(sdk, request)

    def _send_once(self, sdk: Any, request: ApiRequest) -> object:  # noqa: ANN401
        seconds = request.timeout_seconds or self._settings.request_timeout_seconds
        if request.text is not None:
            return self._send_text(sdk, request, request.text)
        try:
            answer, _, _ = sdk.call_api(
                request.path,
                request.method,
                query_params=request.query_pairs,
                body=request.body,
                response_type="object",
                _request_timeout=(min(seconds, self._settings.connect_timeout_seconds), seconds),
            )
        except Exception as error:
            raise _failure(error) from error
        return answer

    def _send_text(self, sdk: Any, request: ApiRequest, text: str) -> object:  # noqa: ANN401
        """Send a body as it is: the SDK would put JSON's escapes into it."""
        assert self._connection is not None
        authentication = sdk.get_authentication_headers() or {}
        response = self._connection.request(
            request.method,
            self._url + request.path,
            content=text.encode(),
            params=request.query_pairs,
            headers={"Content-Type": "text/plain", **authentication.get("header", {})},
        )
        if not response.is_success:
            raise RefusedError(response.status_code, response.text)
        return response.text

    def _ready(self) -> Any:  # noqa: ANN401
        with self._first:
            if self._sdk is None:
                self._connection = self._connect(self._settings)
                self._sdk = sdk_client(self._settings, self._connection)
            return self._sdk


def _failure(error: Exception) -> RequestFailedError:
    """What the SDK's exception stands for; our own is in its chain when there was no answer."""
    status = getattr(error, "status", None)
    if isinstance(status, int) and status > 0:
        return RefusedError(status, str(getattr(error, "body", "") or ""))
    cause: BaseException | None = error
    for _ in range(ERROR_CHAIN_MAX):
        if cause is None or isinstance(cause, (NotSentError, NoAnswerError)):
            break
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, RequestFailedError):
        return cause
    return NoAnswerError(f"{type(error).__name__}: {error}")


async def _joined(sent: Future[object]) -> object:
    """Wait for a request, also when the caller is cancelled: it must not outlive its caller.

    A heartbeat that arrives after a terminal update can undo it on the server.
    """
    answer = asyncio.wrap_future(sent)
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        while not sent.cancel() and not answer.done():
            try:
                await asyncio.wait([answer])
            except asyncio.CancelledError:
                continue
        raise
