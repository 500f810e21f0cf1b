"""Object bodies as streams, through the generated client's own connections.

The generated client reads whole bodies into memory and opens what it uploads as a file name. This
moves bytes in pieces instead; it knows neither objects nor what a status means.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from urllib.parse import quote, urlencode

from urllib3 import BaseHTTPResponse, PoolManager, Timeout

from perago.adapters.lakefs.exchange import Failure, Refused, read_refusal
from perago.domain.logical_execution import IMPOSSIBLE_NAMES

PIECE_BYTES = 1024 * 1024
_FIRST_FAILURE = 300

# The segments of a path, unquoted.
Place: TypeAlias = tuple[str, ...]


class AnsweredError(Exception):
    """A streamed request was answered with something else than success."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


class Source(Protocol):
    """Bytes to send, in pieces."""

    def read(self, amount: int = -1, /) -> bytes:
        """The next piece, empty at the end."""
        ...


@dataclass(frozen=True, slots=True)
class TimeOuts:
    """How long an answer may take, and how long a stream may stand still."""

    answering: Timeout
    moving: Timeout


class RawHttp:
    """Requests whose bodies are streams."""

    def __init__(
        self, pool: PoolManager, address: str, headers: Mapping[str, str], time_outs: TimeOuts
    ) -> None:
        self._pool = pool
        self._address = address
        self._headers = dict(headers)
        self._time_outs = time_outs
        # Large objects in pieces of 16 KiB cost more in system calls than in copying.
        pool.connection_pool_kw["blocksize"] = PIECE_BYTES

    def send(
        self,
        path: Place,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: Source,
    ) -> bytes:
        """POST a stream and return the answer's body."""
        response = self._pool.request(
            "POST",
            self._url(path, query),
            headers={**self._headers, "Accept": "application/json", **headers},
            body=body,  # type: ignore[arg-type]  # urllib3 asks for a whole IO, and reads
            timeout=self._time_outs.moving,
        )
        _check(response)
        return response.data

    def fetch(self, path: Place, query: Mapping[str, str] | None = None) -> bytes:
        """GET a body whole."""
        with self._receive(path, query or {}, self._time_outs.answering) as pieces:
            return b"".join(pieces)

    @contextmanager
    def receive(self, path: Place, query: Mapping[str, str]) -> Generator[Iterator[bytes]]:
        """GET a body in pieces; fewer bytes than were promised are an error."""
        with self._receive(path, query, self._time_outs.moving) as pieces:
            yield pieces

    @contextmanager
    def _receive(
        self, path: Place, query: Mapping[str, str], timeout: Timeout
    ) -> Generator[Iterator[bytes]]:
        response = self._pool.request(
            "GET",
            self._url(path, query),
            headers={**self._headers, "Accept-Encoding": "identity"},
            preload_content=False,
            timeout=timeout,
        )
        try:
            _check(response)
            yield response.stream(PIECE_BYTES)
        except BaseException:
            # What is left unread would be taken for the next answer of this connection.
            response.close()
            raise
        finally:
            response.release_conn()

    def _url(self, path: Place, query: Mapping[str, str]) -> str:
        # A path names things as `branch`, "main", `tag`, "v1": the kind first.
        require_names(dict(zip(path[::2], path[1::2], strict=False)))
        segments = "/".join(quote(segment, safe="") for segment in path)
        return f"{self._address}/{segments}?{urlencode(query, quote_via=quote)}"


def require_names(names: Mapping[str, str]) -> None:
    """Answer as lakeFS does for what is missing, instead of sending a name that nothing can have.

    `names` are by their kind. urllib3 takes `.` and `..` out of a path, and the rest is the address
    of something else.
    """
    for kind, name in names.items():
        if name in IMPOSSIBLE_NAMES:
            found = "repository" if "repositor" in kind else "branch" if "branch" in kind else "ref"
            raise AnsweredError(Refused(404, f"{found} not found"))


def _check(response: BaseHTTPResponse) -> None:
    if response.status >= _FIRST_FAILURE:
        body = response.data.decode("utf-8", "replace")
        raise AnsweredError(read_refusal(response.status, body))
