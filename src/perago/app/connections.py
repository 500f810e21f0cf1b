"""What the container has to know: which lakeFS, which Conductor, which disk, on which terms.

Plain values; where each came from is the settings' business. `memory:` names the in-memory
worlds of this process, any other scheme an adapter.
"""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFSConnection:
    """One lakeFS installation."""

    url: str
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    ca_file: Path | None = None
    verify_tls: bool = True
    proxy: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorConnection:
    """One Conductor installation."""

    url: str
    auth_key: str | None = None
    auth_secret: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    verify_tls: bool = True
    proxy: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The environment of a process; a part that is None is not there and must not be asked."""

    workspace_root: Path
    lakefs: LakeFSConnection | None = None
    conductor: ConductorConnection | None = None
