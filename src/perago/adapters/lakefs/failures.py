"""Exceptions of the generated client and of urllib3, told as what became of the request.

Knows only where an exception can come from: before the request left, or after.
"""

import ssl
from typing import cast

from lakefs_sdk.exceptions import ApiException
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationValueError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    SSLError,
)

from perago.adapters.lakefs.exchange import Failure, Lost, NotSent, read_refusal, shortened
from perago.adapters.lakefs.raw_http import AnsweredError


def classify(error: Exception) -> Failure:
    """Tell what became of the request that ended in this exception."""
    match error:
        case ApiException():
            return _answered(error)
        case AnsweredError():
            return error.failure
        case NewConnectionError() | ConnectTimeoutError() | ProxyError() | LocationValueError():
            return NotSent(shortened(f"{type(error).__name__}: {error}"))
        case SSLError():
            return _failed_tls(error)
        case ProtocolError():
            return Lost(shortened(str(error)), broken=True)
        case HTTPError():
            return Lost(shortened(f"{type(error).__name__}: {error}"))
        case _:
            # An answer that cannot be decoded is no answer, whatever its decoder raised.
            return Lost(shortened(f"unusable answer: {type(error).__name__}: {error}"))


def _answered(error: ApiException) -> Failure:
    status = cast("int | None", error.status)
    if not status:
        # The client replaces a TLS error by its text and leaves the cause in the context.
        cause = error.__context__
        return _failed_tls(cause if isinstance(cause, Exception) else error)
    body = cast("str | bytes | None", error.body)
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    return read_refusal(status, body or "")


def _failed_tls(error: Exception) -> Failure:
    """A certificate or a protocol that was refused in the handshake: nothing was sent."""
    text = shortened(f"TLS: {error}")
    in_handshake = any(isinstance(cause, ssl.SSLCertVerificationError) for cause in error.args)
    if in_handshake or "WRONG_VERSION_NUMBER" in text or "CERTIFICATE_VERIFY" in text:
        return NotSent(text)
    return Lost(text, broken=True)
