"""What the lakeFS adapter has to be told, and what it makes of it.

Knows sizes and time-outs. Reads no environment: settings are somebody else's.
"""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFSConfiguration:
    """One lakeFS installation and how to talk to it.

    `calls_concurrent` bounds short requests, `transfers_concurrent` those that move objects: a
    merge never waits behind uploads. `proxy` None means what the usual variables say, the
    empty text none at all.
    """

    endpoint_url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    ca_file: Path | None = None
    verify_tls: bool = True
    proxy: str | None = field(default=None, repr=False)
    calls_concurrent: int = 32
    transfers_concurrent: int = 32
    connect_seconds: float = 10.0
    answer_seconds: float = 60.0
    stalled_transfer_seconds: float = 60.0
