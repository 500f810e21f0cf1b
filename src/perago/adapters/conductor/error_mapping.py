"""Failures of requests as the port's errors; the one place where a status becomes a meaning.

    failure              read                 write
    not sent             UnavailableError     UnavailableError
    no usable answer     UnavailableError     OutcomeUnknownError
    5xx, 408, 3xx        UnavailableError     OutcomeUnknownError (3xx: UnavailableError)
    429                  UnavailableError     UnavailableError
    401, 403             AccessDeniedError    AccessDeniedError
    404 of Conductor     MissingError         MissingError
    404 of anybody else  UnavailableError     UnavailableError
    a page of HTML       UnavailableError     OutcomeUnknownError
    other 4xx            RequestRefusedError  RequestRefusedError

Must not know what follows from an error.
"""

import json
from http import HTTPStatus
from typing import cast

from perago.adapters.conductor.api_request import (
    ApiRequest,
    Effect,
    RefusedError,
)
from perago.adapters.http import NotSentError, RequestFailedError
from perago.ports.errors import (
    AccessDeniedError,
    MissingError,
    OutcomeUnknownError,
    RequestRefusedError,
    UnavailableError,
    WorldError,
)

SHOWN_BODY_MAX = 300
NO_SUCH_PATH = "No static resource"
UNANSWERED = (HTTPStatus.REQUEST_TIMEOUT,)
DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class NotConductorError(UnavailableError):
    """Somebody answered, but not Conductor: a landing page, a gateway, a redirect."""


def world_error(request: ApiRequest, address: str, failure: RequestFailedError) -> WorldError:
    """The port's error for a failed request."""
    where = f"{request.purpose} at {address}"
    if isinstance(failure, RefusedError):
        return _refusal(request, where, failure)
    if isinstance(failure, NotSentError):
        return UnavailableError(f"{where}: not sent: {failure}")
    return _lost(request, f"{where}: no usable answer: {failure}")


def landing_page(request: ApiRequest, address: str) -> WorldError:
    """The port's error for a page of HTML where an answer was expected."""
    message = (
        f"{request.purpose} at {address}: a page of HTML answered; the address must end in the "
        "API's path, usually /api"
    )
    if request.effect is Effect.READ:
        return NotConductorError(message)
    return OutcomeUnknownError(message)


def _refusal(request: ApiRequest, where: str, refusal: RefusedError) -> WorldError:
    message = f"{where}: {refusal.status} {_said(refusal.body)}"
    status = refusal.status
    if status in DENIED:
        return AccessDeniedError(
            f"{message}; check CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET and what they may do"
        )
    if status == HTTPStatus.NOT_FOUND:
        return _not_found(message, refusal)
    if status < HTTPStatus.BAD_REQUEST:
        return NotConductorError(message)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return UnavailableError(message)
    if status in UNANSWERED or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _lost(request, message)
    return RequestRefusedError(message)


def _not_found(message: str, refusal: RefusedError) -> WorldError:
    if _conductor_message(refusal.body) is not None:
        return MissingError(message)
    # A gateway that routes elsewhere must not look like a task that is gone.
    return NotConductorError(
        f"{message}; this 404 is not Conductor's: the address must end in the API's path, "
        "usually /api"
    )


def _lost(request: ApiRequest, message: str) -> WorldError:
    if request.effect is Effect.READ:
        return UnavailableError(message)
    return OutcomeUnknownError(message)


def _said(body: str) -> str:
    said = _conductor_message(body) or " ".join(body.split())
    return said if len(said) <= SHOWN_BODY_MAX else f"{said[:SHOWN_BODY_MAX]}..."


def _conductor_message(body: str) -> str | None:
    """What Conductor says; None when somebody else speaks.

    Spring's own error page has `error` and `path`, Conductor's answers have neither; and a path
    that is not in its API, such as `/api/api/tasks`, gets its form but Spring's words.
    """
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    if not isinstance(answer, dict):
        return None
    fields = cast("dict[str, object]", answer)
    if "message" not in fields or "path" in fields:
        return None
    if str(fields["message"]).startswith(NO_SUCH_PATH):
        return None
    details = fields.get("validationErrors")
    return f"{fields['message']} {json.dumps(details)}" if details else str(fields["message"])
