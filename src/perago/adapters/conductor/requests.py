"""One request to Conductor's REST API as a value, and what its failure means for the ports.

    failure              read                 write, poll
    not sent             UnavailableError     UnavailableError
    no trusted TLS       WrongServerError     WrongServerError
    no usable answer     UnavailableError     OutcomeUnknownError
    5xx, 408, 3xx        UnavailableError     OutcomeUnknownError (3xx: WrongServerError)
    429                  UnavailableError     UnavailableError
    401, 403             AccessDeniedError    AccessDeniedError
    404 of Conductor     MissingError         MissingError
    404 of a proxy etc.  WrongServerError     WrongServerError
    a page of HTML       WrongServerError     OutcomeUnknownError
    other 4xx            RequestRefusedError  RequestRefusedError
    no token             as a read            as a read: the write was never sent

The only module where a status becomes a meaning. Does not know who sends a request.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, Protocol, TypeAlias, cast
from urllib.parse import quote

from perago.adapters.http import NotSentError, NotTrustedError, RequestFailedError
from perago.ports.errors import (
    AccessDeniedError,
    MissingError,
    OutcomeUnknownError,
    RequestRefusedError,
    ServiceError,
    UnavailableError,
    WrongServerError,
)

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]
# Conductor's answer to a path that its API does not have; it looks like one to a missing thing.
NO_SUCH_PATH = "No static resource"
PATH_REMEDY = "the address must end in the API's path, usually /api"
_MEANINGS: Mapping[int, type[ServiceError]] = {
    HTTPStatus.NOT_FOUND: MissingError,
    HTTPStatus.TOO_MANY_REQUESTS: UnavailableError,
}
# A stack trace of Java fills pages of a log. Conductor's own sentences are shorter, and a reason of
# an attempt has 500 characters for this and what surrounds it.
SHOWN_BODY_MAX = 300


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A method and a path below `/api`; `purpose` is how errors call it."""

    purpose: str
    method: Method
    path: str
    query: Mapping[str, str | int | bool | None] | None = None
    body: object = None
    text: str | None = None
    timeout_seconds: float | None = None
    is_poll: bool = False


class ApiClient(Protocol):
    """Sends requests and returns parsed JSON, text, or None for an empty answer.

    Raises only errors of `ports.errors`. A request never outlives the call that sent it:
    cancelling the call waits for the answer of a request that has left.
    """

    @property
    def address(self) -> str:
        """The address for messages, without credentials."""
        ...

    async def call(self, request: ApiRequest) -> object:
        """Send one request."""
        ...


def path_of(*parts: str) -> str:
    """A path below `/api` in which every part is quoted."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


class RefusedError(RequestFailedError):
    """The server answered with a status that is not 2xx."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


class TokenError(RequestFailedError):
    """No token came, so the request that needs one was never sent."""

    def __init__(self, failure: RequestFailedError) -> None:
        super().__init__(str(failure))
        self.failure = failure


class PageError(RequestFailedError):
    """A page of HTML arrived where an answer was expected."""


class NotConductorError(WrongServerError):
    """Another server answered, for example with a landing page or a redirect."""


def service_error(request: ApiRequest, address: str, failure: RequestFailedError) -> ServiceError:
    """The port's error for a failed request."""
    where = f"{request.purpose} at {address}"
    match failure:
        case TokenError(failure=of_token):
            asking = ApiRequest(f"{request.purpose}: not sent: ask for a token", "GET", "/token")
            return service_error(asking, address, of_token)
        case RefusedError():
            return _refusal(request, where, failure)
        case NotTrustedError():
            return WrongServerError(f"{where}: not sent: {failure}")
        case NotSentError():
            return UnavailableError(f"{where}: not sent: {failure}")
        case PageError():
            message = f"{where}: a page of HTML answered; {PATH_REMEDY}"
            return _lost(request, message, NotConductorError)
        case _:
            return _lost(request, f"{where}: no usable answer: {failure}")


def _refusal(request: ApiRequest, where: str, refusal: RefusedError) -> ServiceError:
    status, said = refusal.status, _conductor_message(refusal.body)
    shown = said or " ".join(refusal.body.split())
    shown = shown if len(shown) <= SHOWN_BODY_MAX else f"{shown[:SHOWN_BODY_MAX]}..."
    message = f"{where}: {status} {shown}"
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        keys = "CONDUCTOR_AUTH_KEY and CONDUCTOR_AUTH_SECRET"
        return AccessDeniedError(f"{message}; check {keys} and what they may do")
    if status == HTTPStatus.NOT_FOUND and said is None:
        # A gateway that routes elsewhere must not look like a task that is gone.
        return NotConductorError(f"{message}; this 404 is not Conductor's: {PATH_REMEDY}")
    if status == HTTPStatus.REQUEST_TIMEOUT or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _lost(request, message)
    if status < HTTPStatus.BAD_REQUEST:
        return NotConductorError(message)
    return _MEANINGS.get(status, RequestRefusedError)(message)


def _lost(
    request: ApiRequest, message: str, of_a_read: type[UnavailableError] = UnavailableError
) -> ServiceError:
    """A write may have taken effect; a read can be asked again.

    A poll is a GET that writes: it hands rows out, and those of a lost answer wait for their
    response time-out. So it is no read that found nothing.
    """
    is_read = request.method == "GET" and not request.is_poll
    return of_a_read(message) if is_read else OutcomeUnknownError(message)


def _conductor_message(body: str) -> str | None:
    """What Conductor says; None when the answer is of another server.

    Spring's own error page has `error` and `path`, Conductor's answers have neither; and a path
    that is not in its API, such as `/api/api/tasks`, gets its form but Spring's words.
    """
    try:
        answer: object = json.loads(body)
    except ValueError:
        return None
    fields = cast("dict[str, object]", answer) if isinstance(answer, dict) else {}
    if "message" not in fields or "path" in fields:
        return None
    said, details = str(fields["message"]), fields.get("validationErrors")
    if said.startswith(NO_SUCH_PATH):
        return None
    return f"{said} {json.dumps(details)}" if details else said
