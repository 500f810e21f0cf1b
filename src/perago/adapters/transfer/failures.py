"""What can go wrong with one request, and what it means once no more tries are left.

The only file that maps statuses and broken connections to the errors of the ports.
"""

import http.client
import json

from perago.ports.errors import (
    AccessDeniedError,
    BranchMissingError,
    ObjectMissingError,
    OutcomeUnknownError,
    ProtectedBranchError,
    RepositoryMissingError,
    RequestRefusedError,
    UnavailableError,
    WorldError,
)

THROTTLED = frozenset({429, 503})
_SERVER_FAULT = 500
NETWORK_ERRORS = (OSError, http.client.HTTPException)


class AnsweredError(Exception):
    """A request was answered with something else than success."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.text = _message(body)
        super().__init__(f"{status} {self.text}")

    @property
    def is_throttling(self) -> bool:
        """Whether the server asks for less."""
        return self.status in THROTTLED

    @property
    def is_passing(self) -> bool:
        """Whether another try may be answered differently."""
        return self.is_throttling or self.status >= _SERVER_FAULT


class BrokenError(Exception):
    """No answer, or only a part of one; `sent` says whether the request may have arrived."""

    def __init__(self, reason: str, *, sent: bool = True) -> None:
        self.sent = sent
        super().__init__(reason)


def read_failure(what: str, failure: AnsweredError | BrokenError) -> WorldError:
    """The error of a fetch that was given up."""
    if isinstance(failure, AnsweredError) and not failure.is_passing:
        if failure.status in {404, 410}:
            missing = "repository" in failure.text
            kind = RepositoryMissingError if missing else ObjectMissingError
            return kind(f"fetch {what}: {failure}")
        return _refusal("fetch", what, failure)
    return UnavailableError(f"fetch {what}: {failure}; nothing was used; try again")


def write_failure(what: str, failure: AnsweredError | BrokenError) -> WorldError:
    """The error of a store that was given up."""
    if isinstance(failure, AnsweredError) and not failure.is_passing:
        if failure.status == http.client.NOT_FOUND:
            missing = "repository" in failure.text
            kind = RepositoryMissingError if missing else BranchMissingError
            return kind(f"store {what}: {failure}")
        return _refusal("store", what, failure)
    if isinstance(failure, BrokenError) and not failure.sent:
        return UnavailableError(f"store {what}: {failure}; nothing was sent; try again")
    return OutcomeUnknownError(f"store {what}: {failure}; nothing was published")


def _refusal(verb: str, what: str, failure: AnsweredError) -> WorldError:
    if "protected branch" in failure.text:
        return ProtectedBranchError(f"{verb} {what}: {failure}")
    if failure.status in {401, 403}:
        return AccessDeniedError(f"{verb} {what}: {failure}")
    return RequestRefusedError(f"{verb} {what}: {failure}")


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")
