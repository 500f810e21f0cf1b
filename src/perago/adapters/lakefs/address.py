"""Where lakeFS is: one spelling of its address, its certificate and the proxy in between.

Decides what is repaired in silence and what is refused. Opens no connection.
"""

import re
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit, urlunsplit

from perago.ports.errors import UnavailableError

API_PATH = "/api/v1"
DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


class LakeFSAddressError(UnavailableError):
    """The address does not lead to a lakeFS API; nothing was asked of it."""

    def __init__(self, address: str, found: str) -> None:
        self.address = address
        self.found = found
        super().__init__(
            f"{address!r} is not the address of a lakeFS API: {found}; expected "
            f"http(s)://HOST:PORT, or http(s)://HOST:PORT/PATH{API_PATH} behind a proxy "
            "that adds a path (LAKECTL_SERVER_ENDPOINT_URL)"
        )


def api_address(address: str) -> str:
    """The address of the API: `/api/v1` added, trailing slashes removed."""
    spelled = address.strip()
    if not _SCHEME.match(spelled):
        # Added here, it would be http, and keys would travel in clear without a word.
        raise LakeFSAddressError(address.rpartition("@")[2], "it has no scheme")
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
    if parts.scheme not in DEFAULT_PORTS:
        raise LakeFSAddressError(address, f"its scheme is {parts.scheme!r}")
    if not parts.hostname or port == 0:
        raise LakeFSAddressError(address, "it names no host")
    if parts.username is not None or parts.password is not None:
        # The secret must not come back in an error or a log line.
        raise LakeFSAddressError(parts.hostname, "it carries credentials")
    if parts.query or parts.fragment:
        raise LakeFSAddressError(address, "it carries a query or a fragment")
    return parts


def proxy_address(address: str, environment: Mapping[str, str] | None = None) -> str | None:
    """The proxy that the usual variables name for this address, or None.

    `environment` replaces the process environment: its HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and
    NO_PROXY in either case, the lower case first, as every HTTP client reads them.
    """
    if environment is None:
        proxies = urllib.request.getproxies_environment()
    else:
        proxies = {
            name[: -len("_proxy")].lower(): value
            for upper_first in (str.isupper, str.islower)
            for name, value in environment.items()
            if name.lower().endswith("_proxy") and upper_first(name) and value
        }
    parts = urlsplit(address)
    bypassed = urllib.request.proxy_bypass_environment(  # type: ignore[attr-defined]  # no stub
        parts.netloc, proxies
    )
    if bypassed:
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


def certificate_authority(address: str, file: Path | None) -> str | None:
    """The certificate file as the client wants it, refused here when it cannot be read."""
    if file is None:
        return None
    if not file.is_file():
        raise LakeFSAddressError(address, f"the certificate file {str(file)!r} does not exist")
    return str(file)
