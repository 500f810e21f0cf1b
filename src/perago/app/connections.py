"""What the container has to know: which lakeFS, which Conductor, which disk, on which terms.

Plain values; the settings know where each came from. `memory:` names a server in the
memory of this process, any other scheme an adapter.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

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
class LakeFSConnection:
    """One lakeFS installation, and how object bytes travel.

    `requests_max` 0 is the adapter's. With `answer_seconds` each question gets that much and is
    asked once: for a person who waits.
    """

    url: str
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    ca_file: Path | None = None
    verify_tls: bool = True
    proxies: Proxies = Proxies()
    route: str = "auto"
    requests_max: int = 0
    answer_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorConnection:
    """One Conductor installation."""

    url: str
    auth_key: str | None = None
    auth_secret: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    verify_tls: bool = True
    proxies: Proxies = Proxies()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTerms:
    """Where this host keeps contents it has seen: None is beside the workspaces; and how many."""

    directory: Path | None = None
    bytes_max: int = 10 * 1024**3  # the default of PERAGO_CACHE_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTerms:
    """Who moves workspaces: this process, Spark, or whichever the number of objects asks for."""

    kind: str = "local"
    local_objects_max: int = 200_000  # the default of PERAGO_PIPELINE_OBJECTS
    spark_master: str | None = None
    spark_options: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The environment of a process; a part that is None is not there and must not be asked."""

    workspace_root: Path
    lakefs: LakeFSConnection | None = None
    conductor: ConductorConnection | None = None
    cache: CacheTerms = CacheTerms()
    pipeline: PipelineTerms = field(default_factory=PipelineTerms)
