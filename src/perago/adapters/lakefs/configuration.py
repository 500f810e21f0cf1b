"""Where lakeFS is, how to talk to it, and how long one request is repeated.

Decides what is repaired in silence and what is refused. Reads no environment, opens no connection.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit, urlunsplit

from perago.adapters.http import HttpTerms
from perago.ports.errors import UnavailableError

API_PATH = "/api/v1"
# With a round trip of 20 ms, 48 requests under way are up to 2,400 small objects a second. The
# clients that docs/benchmarks.md compares get as many; each is a connection that the server keeps.
REQUESTS_CONCURRENT_MAX = 48
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


class RouteChoice(StrEnum):
    """Which way object bytes take; `auto` asks the server what it can do."""

    AUTO = "auto"
    API = "api"
    PRESIGNED = "presigned"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTerms:
    """How long one request is repeated, and how long the pauses between its attempts are.

    The bound is a time and not a number of attempts, because what is waited for is a server that
    starts again or a rollout: five quick attempts are over after a second and a half. It counts
    from the first failure, so that an attempt which waited a minute in silence is still repeated.
    The first pause is that of one lost connection; the longest is how late a worker may find out
    that the server is back.
    """

    seconds_max: float = 60.0
    first_pause_seconds: float = 0.2
    pause_seconds_max: float = 10.0

    def pause_before(
        self,
        *,
        failures: int,
        seconds_since_first: float,
        asked_for: float | None,
        chance: float,
    ) -> float | None:
        """Seconds to wait before another attempt; None when it is time to give up.

        `chance` is between 0 and 1. The whole pause is left to it (full jitter), because dozens of
        requests fail at the same moment and would come back at the same moment. What the server
        asks for is waited out, and the jitter comes on top.
        """
        # A float cannot hold 2 to the 1024, and a server may fail quickly for a minute.
        doublings = min(failures - 1, 30)
        ceiling = min(self.pause_seconds_max, self.first_pause_seconds * 2.0**doublings)
        pause = chance * ceiling + (asked_for or 0.0)
        return pause if seconds_since_first + pause <= self.seconds_max else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFSConfiguration:
    """One lakeFS installation and how to talk to it.

    `requests_concurrent_max` bounds the transfers of all attempts of this process together; short
    questions have a bound of their own (`QUESTIONS_MAX`). `answer_seconds` is the time of a short
    request; where bytes move it bounds each wait without progress.
    """

    endpoint_url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    http: HttpTerms = field(default_factory=HttpTerms)
    route: RouteChoice = RouteChoice.AUTO
    requests_concurrent_max: int = REQUESTS_CONCURRENT_MAX
    answer_seconds: float = 60.0  # a merge without a budget has as long
    retry: RetryTerms = field(default_factory=RetryTerms)


class LakeFSAddressError(UnavailableError):
    """The address does not lead to a lakeFS API; nothing was asked of it."""

    def __init__(self, address: str, found: str) -> None:
        # A secret must not come back in an error or a log line, whatever else is wrong beside it.
        address = address.rpartition("@")[2]
        super().__init__(
            f"{address!r} is not the address of a lakeFS API: {found}; expected "
            f"http(s)://HOST:PORT, or http(s)://HOST:PORT/PATH{API_PATH} behind a proxy "
            "that adds a path (PERAGO_LAKEFS)"
        )


def api_address(address: str) -> str:
    """The address of the API: `/api/v1` added, trailing slashes removed."""
    spelled = address.strip()
    if not _SCHEME.match(spelled):
        # Added here, it would be http, and keys would travel in clear without a word.
        raise LakeFSAddressError(address, "it has no scheme")
    parts = _split(address, spelled)
    path = parts.path.rstrip("/")
    if not path or path == "/api":
        path = API_PATH
    if not path.endswith(API_PATH):
        raise LakeFSAddressError(address, f"its path {parts.path!r} does not end with {API_PATH}")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _split(address: str, spelled: str) -> SplitResult:
    try:
        parts = urlsplit(spelled)
        port = parts.port
    except ValueError as error:
        raise LakeFSAddressError(address, str(error)) from error
    if parts.scheme not in {"http", "https"}:
        raise LakeFSAddressError(address, f"its scheme is {parts.scheme!r}")
    if not parts.hostname or port == 0:
        raise LakeFSAddressError(address, "it names no host")
    if parts.username is not None or parts.password is not None:
        raise LakeFSAddressError(address, "it carries credentials")
    if parts.query or parts.fragment:
        raise LakeFSAddressError(address, "it has a query or a fragment")
    return parts
