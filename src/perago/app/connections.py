"""What the container has to know: which lakeFS, which Conductor, which disk, on which terms.

`connections_of` takes the servers from the settings, as plain values. `memory:` names a server in
the memory of this process, any other scheme an adapter.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from perago.app.settings.settings import Settings
from perago.domain.errors import RuntimeConfigError

_NAME_AND_PORT = re.compile(r"(\[.*\]|[^:]*)(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxy on the way to an address, by one rule for every client of this process.

    A block store has its own address, which only lakeFS knows, so the rule is handed on and not
    its result for one address.
    """

    http: str | None = field(default=None, repr=False)
    https: str | None = field(default=None, repr=False)
    exempt: tuple[str, ...] = ()  # the words of NO_PROXY

    def __call__(self, url: str) -> str | None:
        """Return the proxy of an address, or None for hosts that `NO_PROXY` lists."""
        parts = urlsplit(url)
        if any(_is_listed(parts, word) for word in self.exempt):
            return None
        return {"http": self.http, "https": self.https}.get(parts.scheme)


def _is_listed(parts: SplitResult, listed: str) -> bool:
    """Whether a word of `NO_PROXY` means this host: a name, a domain, a network, with a port."""
    # With a dot at its end a name is the same name, spelled out to the root.
    host = (parts.hostname or "").removesuffix(".")
    if listed == "*":
        return True
    # Of `::1` nothing is a port, so an IPv6 address has one only behind brackets.
    spelled = _NAME_AND_PORT.fullmatch(listed.lower())
    name, port = spelled.groups() if spelled else (listed.lower(), None)
    name = name.strip("[]").removesuffix(".")
    if port and port != str(parts.port or {"http": 80, "https": 443}.get(parts.scheme)):
        return False
    with suppress(ValueError):
        return ip_address(host) in ip_network(name, strict=False)
    domain = name.removeprefix("*").removeprefix(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConnection:
    """A server, and the way to it."""

    url: str
    ca_file: Path | None = None
    verify_tls: bool = True
    proxies: Proxies = Proxies()


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFSConnection(ServerConnection):
    """One lakeFS installation, and how object bytes travel.

    `requests_max` 0 is the adapter's. With `answer_seconds` each question gets that much and is
    asked once: for a person who waits.
    """

    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    route: str = "auto"
    requests_max: int = 0
    answer_seconds: float = 0.0

    @property
    def is_over_http(self) -> bool:
        """Whether other processes reach the same lakeFS by its address."""
        return urlsplit(self.url).scheme in {"http", "https"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorConnection(ServerConnection):
    """One Conductor installation."""

    auth_key: str | None = None
    auth_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Connections:
    """The environment of a process; a service that is None is not there and must not be asked."""

    settings: Settings = field(repr=False)  # the address of a proxy may hold a password
    lakefs: LakeFSConnection | None = None
    conductor: ConductorConnection | None = None


def connections_of(settings: Settings) -> Connections:
    """Return what the settings of this process say; a service that is not configured is None."""
    return Connections(settings, lakefs_connection(settings), conductor_connection(settings))


def lakefs_connection(settings: Settings) -> LakeFSConnection | None:
    """How to reach lakeFS, whatever adapter its address asks for."""
    url = settings.lakefs_address
    if url is None:
        return None
    return LakeFSConnection(
        url=url,
        access_key_id=settings.lakectl_credentials_access_key_id or "",
        secret_access_key=_revealed(settings.lakectl_credentials_secret_access_key) or "",
        ca_file=_certificates(settings),
        verify_tls=settings.tls_verify,
        proxies=_proxies_to(url, settings),
        route=settings.transfer_route,
        requests_max=settings.transfer_concurrency,
    )


def conductor_connection(settings: Settings) -> ConductorConnection | None:
    """How to reach Conductor, whatever adapter its address asks for."""
    url = settings.conductor_address
    if url is None:
        return None
    return ConductorConnection(
        url=url,
        auth_key=settings.conductor_auth_key,
        auth_secret=_revealed(settings.conductor_auth_secret),
        ca_file=_certificates(settings),
        verify_tls=settings.tls_verify,
        proxies=_proxies_to(url, settings),
    )


def proxies_of(settings: Settings) -> Proxies:
    """The proxies of the settings, which have read the usual variables."""
    words = (word.strip() for word in (settings.no_proxy or "").split(","))
    return Proxies(settings.http_proxy, settings.https_proxy, tuple(filter(None, words)))


def _proxies_to(url: str, settings: Settings) -> Proxies:
    """The proxies, refused before anything is sent when the one to this address speaks no HTTP.

    Only then: a desktop sets ALL_PROXY to a SOCKS proxy for everything, and lists what is near.
    """
    proxies = proxies_of(settings)
    try:
        scheme, found, address = (proxies(url) or "").partition("://")
        host = urlsplit(url).hostname
    except ValueError:  # no address at all: its adapter says what is wrong with it
        return proxies
    if found and scheme.lower() not in {"http", "https"}:
        raise RuntimeConfigError(
            f"{scheme}://{address.rpartition('@')[2]} cannot be the proxy to {host}: expected one"
            f" that speaks HTTP, for example HTTPS_PROXY=http://proxy:3128; without a proxy it is"
            f" reached with NO_PROXY={host}",
            code="PRG-C002",
        )
    return proxies


def _certificates(settings: Settings) -> Path | None:
    """The file of the settings, refused before anything is sent when it holds no certificate."""
    path = settings.tls_ca_file
    if path is not None:
        import ssl  # noqa: PLC0415  # needed only by those who have the file

        try:
            ssl.create_default_context(cafile=str(path))
        except OSError as error:  # an SSLError is one
            text = f"PERAGO_TLS_CA_FILE cannot be used: {path}: {error}"
            raise RuntimeConfigError(text, code="PRG-C006") from error
    return path


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
