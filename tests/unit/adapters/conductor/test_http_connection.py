"""Which failures of a connection left a request on its way, and that none is repeated."""

import gzip

import httpx
import pytest

from perago.adapters.conductor.api_request import (
    NoAnswerError,
    NotSentError,
    RequestFailedError,
)
from perago.adapters.conductor.connection_settings import ConductorSettings
from perago.adapters.conductor.http_connection import HttpConnection

SETTINGS = ConductorSettings("http://conductor:8080/api")
URL = "http://conductor:8080/api/tasks"


class Failing(httpx.BaseTransport):
    """Fails as told, and counts."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.requests = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Fail."""
        self.requests += 1
        assert request.url == URL
        raise self.error


class Endless(httpx.SyncByteStream):
    """A body that never ends."""

    def __init__(self) -> None:
        self.is_closed = False

    def __iter__(self) -> "Endless":
        return self

    def __next__(self) -> bytes:
        return b" "

    def close(self) -> None:
        """Note that the connection was given back."""
        self.is_closed = True


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (httpx.ConnectError("refused"), NotSentError),
        (httpx.ConnectTimeout("slow"), NotSentError),
        (httpx.PoolTimeout("busy"), NotSentError),
        (httpx.ProxyError("proxy"), NotSentError),
        (httpx.LocalProtocolError("header"), NotSentError),
        (httpx.WriteError("broken pipe"), NoAnswerError),
        (httpx.WriteTimeout("slow"), NoAnswerError),
        (httpx.ReadError("reset"), NoAnswerError),
        (httpx.ReadTimeout("slow"), NoAnswerError),
        (httpx.RemoteProtocolError("closed without an answer"), NoAnswerError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_a_failure_says_whether_the_request_left_and_is_not_repeated(
    method: str, error: Exception, failure: type[RequestFailedError]
) -> None:
    transport = Failing(error)
    with pytest.raises(failure):
        HttpConnection(SETTINGS, transport).request(method, URL)
    assert transport.requests == 1


def test_an_answer_that_never_ends_is_given_up() -> None:
    body = Endless()
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=body))
    with pytest.raises(NoAnswerError, match="not complete"):
        HttpConnection(SETTINGS, transport).request("GET", URL, timeout=httpx.Timeout(0.01))
    assert body.is_closed


def test_an_answer_comes_whole_with_its_status() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(404, json={"message": "ü"}))
    answer = HttpConnection(SETTINGS, transport).request("GET", URL, params=[("a", "1")])
    assert (answer.status_code, answer.json()) == (404, {"message": "ü"})


def test_a_compressed_answer_is_readable() -> None:
    packed = httpx.Response(
        200, headers={"content-encoding": "gzip"}, content=gzip.compress(b"hello")
    )
    transport = httpx.MockTransport(lambda _: packed)
    assert HttpConnection(SETTINGS, transport).request("GET", URL).text == "hello"


@pytest.mark.parametrize(
    "settings",
    [
        ConductorSettings("https://conductor/api", ca_file="no-such-file.pem"),
        ConductorSettings("https://conductor/api", client_certificate="no-such-file.pem"),
        ConductorSettings("https://conductor/api", proxy="proxy-without-scheme:3128"),
    ],
    ids=["authority", "certificate", "proxy"],
)
def test_tls_files_and_proxies_that_cannot_be_used_send_nothing(
    settings: ConductorSettings,
) -> None:
    with pytest.raises(NotSentError, match="TLS files or proxy cannot be used"):
        HttpConnection(settings)
