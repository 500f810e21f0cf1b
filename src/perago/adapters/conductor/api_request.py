"""One request to Conductor's REST API, as a value, and what refuses it.

Must not know who sends it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias
from urllib.parse import quote

from perago.adapters.http import RequestFailedError

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]
Query: TypeAlias = Mapping[str, str | int | bool | None]


class Effect(StrEnum):
    """What a request does to the server, which decides what a lost answer means."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A method and a path below `/api`; `purpose` is how errors call it."""

    purpose: str
    method: Method
    path: str
    query: Query = field(default_factory=dict[str, str | int | bool | None])
    body: object = None
    text: str | None = None
    effect: Effect = Effect.READ
    timeout_seconds: float | None = None
    is_poll: bool = False

    @property
    def query_pairs(self) -> list[tuple[str, str]]:
        """The query as it is sent; absent values stay out."""
        return [(name, _shown(value)) for name, value in self.query.items() if value is not None]


class RefusedError(RequestFailedError):
    """The server answered with a status that is not 2xx."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status} {body}")
        self.status = status
        self.body = body


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


def _shown(value: str | int | bool | None) -> str:  # noqa: FBT001
    return str(value).lower() if isinstance(value, bool) else str(value)
