"""What the container has to know: which lakeFS, which Conductor, which disk, on which terms.

Plain values; where each came from is the settings' business. `memory:` names the in-memory
worlds of this process, any other scheme an adapter.
"""

from collections.abc import Mapping
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
class TransferTerms:
    """How object bytes travel, and where this host keeps what it has seen.

    `requests_max` 0 leaves the bound to the transport; `cache_directory` None means beside the
    workspaces.
    """

    route: str = "auto"
    requests_max: int = 0
    cache_directory: Path | None = None
    cache_bytes_max: int = 10 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTerms:
    """Who moves workspaces: this process, Spark, or whichever the number of objects asks for."""

    kind: str = "local"
    local_objects_max: int = 200_000
    spark_master: str | None = None
    spark_options: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """The environment of a process; a part that is None is not there and must not be asked."""

    workspace_root: Path
    lakefs: LakeFSConnection | None = None
    conductor: ConductorConnection | None = None
    transfer: TransferTerms = TransferTerms()
    pipeline: PipelineTerms = field(default_factory=PipelineTerms)
