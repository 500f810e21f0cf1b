"""Where a Conductor is and how it is reached; the address is put into one form here.

Decides what an address may look like. Must not know what is asked over it.
"""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from perago.adapters.http import CONNECT_SECONDS, ProxyOf, no_proxy
from perago.ports.errors import UnavailableError

SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class ConductorSettings:
    """One Conductor and the terms on which this process talks to it."""

    url: str
    auth_key: str | None = None
    auth_secret: str | None = field(default=None, repr=False)
    verify_tls: bool = True
    ca_file: Path | None = None
    proxy_of: ProxyOf = field(default=no_proxy, repr=False)
    request_timeout_seconds: float = 15.0
    connect_timeout_seconds: float = CONNECT_SECONDS


def api_address(url: str) -> str:
    """The address without what breaks every request: blanks, a slash at the end, a query.

    A missing `/api` is not added: a gateway may serve the API elsewhere, so the server is asked.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise UnavailableError(
            f"{url!r} is no address of a Conductor API: expected http(s)://host:port/api; "
            "set CONDUCTOR_SERVER_URL to such an address"
        )
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def shown_address(url: str) -> str:
    """The address as it may stand in a log: without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
