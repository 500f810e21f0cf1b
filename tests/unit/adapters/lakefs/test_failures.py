"""Where an exception of the client can come from: before the request left, or after."""

import socket
import ssl
from pathlib import Path

import pytest
from lakefs_sdk.exceptions import ApiException, NotFoundException
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    IncompleteRead,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from perago.adapters.lakefs.exchange import Lost, NotSent, Refused
from perago.adapters.lakefs.failures import classify
from perago.adapters.lakefs.raw_http import AnsweredError

CONNECTION = HTTPConnection("lakefs.test", 8000)
POOL = HTTPConnectionPool("lakefs.test", 8000)


def raised_by_the_client(cause: Exception) -> ApiException:
    """The client turns a TLS error into one without a status while it handles the first."""
    error = ApiException(status=0, reason=f"SSLError\n{cause}")
    error.__context__ = SSLError(cause)
    return error


@pytest.mark.parametrize(
    "error",
    [
        NewConnectionError(CONNECTION, "Connection refused"),
        NameResolutionError("lakefs.test", CONNECTION, socket.gaierror("unknown")),
        ConnectTimeoutError(CONNECTION, "timed out"),
        ProxyError("cannot connect to proxy", OSError("refused")),
        SSLError(ssl.SSLCertVerificationError("CERTIFICATE_VERIFY_FAILED")),
        SSLError("[SSL: WRONG_VERSION_NUMBER] wrong version number"),
        raised_by_the_client(ssl.SSLCertVerificationError("self-signed")),
    ],
    ids=[
        "refused",
        "unknown host",
        "connect time-out",
        "no proxy",
        "bad certificate",
        "plain server",
        "bad certificate, hidden by the client",
    ],
)
def test_before_the_request_left(error: Exception) -> None:
    assert isinstance(classify(error), NotSent)


@pytest.mark.parametrize(
    ("error", "broken"),
    [
        (ReadTimeoutError(POOL, "/", "Read timed out."), False),
        (ProtocolError("Connection aborted.", ConnectionResetError(104, "reset")), True),
        (ProtocolError("Connection broken", IncompleteRead(3, 5)), True),
        (raised_by_the_client(ssl.SSLEOFError("EOF occurred")), True),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), False),
        (AttributeError("'str' object has no attribute 'get'"), False),
    ],
    ids=["silence", "reset", "cut", "TLS broken off", "not text", "not JSON"],
)
def test_after_the_request_left(error: Exception, broken: bool) -> None:  # noqa: FBT001 - a column
    failure = classify(error)

    assert isinstance(failure, Lost)
    assert failure.broken is broken


def test_an_answer_with_a_status_is_a_refusal() -> None:
    error = NotFoundException(status=404)
    error.body = '{"message":"tag not found"}'

    assert classify(error) == Refused(404, "tag not found")


def test_an_answer_to_a_stream_is_taken_as_it_was_read() -> None:
    assert classify(AnsweredError(Refused(403, "no"))) == Refused(403, "no")


def test_a_missing_file_of_ours_would_not_look_like_a_refusal() -> None:
    with pytest.raises(OSError, match="absent") as caught:
        Path("absent").read_bytes()

    assert isinstance(classify(caught.value), Lost)
