"""What the transport has to be told. Reads no environment: settings are somebody else's."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

REQUESTS_CONCURRENT_MAX = 48


class RouteChoice(StrEnum):
    """Which way object bytes take; `auto` asks the server what it can do."""

    AUTO = "auto"
    API = "api"
    PRESIGNED = "presigned"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferConfiguration:
    """One lakeFS installation and how hard to lean on it."""

    endpoint_url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    ca_file: Path | None = None
    verify_tls: bool = True
    route: RouteChoice = RouteChoice.AUTO
    presigned_bytes_min: int = 4 * 1024 * 1024
    requests_concurrent_max: int = REQUESTS_CONCURRENT_MAX
    connect_seconds: float = 10.0
    answer_seconds: float = 60.0
    tries_max: int = 5
    first_pause_seconds: float = 0.1
    pause_seconds_max: float = 2.0
