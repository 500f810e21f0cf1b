"""A network that toxiproxy breaks: cut connections, lost requests, refused ones, late ones.

Between the workers of a kit environment and two real servers. Knows no test.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

from perago.testing.faults import (
    REQUEST_WITHIN,
    Call,
    ExpireLease,
    Fault,
    LoseAnswer,
    LoseRequest,
    Unavailable,
)
from perago.testing.remote_servers import LEASE_SECONDS, RealServers, RemoteServers
from perago.testing.servers import RealMeans, Send
from perago_servers import ConductorServer, LakefsServer, ToxiproxyServer
from perago_servers.toxiproxy import Proxy

LATE_MS = (LEASE_SECONDS + 1) * 1000
LAKEFS_PORTS = frozenset({"branches", "commits", "tags", "objects", "repositories"})

# The client sends these again until one is answered, and would do so until the lease is over.
REPEATED_BY_THE_CLIENT = frozenset(REQUEST_WITHIN.values())
BROKEN_SECONDS = 1.0  # far above the few milliseconds that the first answer takes


@final
@dataclass(frozen=True, slots=True)
class ToxicNetwork(RealMeans):
    """Both ways lead through proxies; both are broken, since one call is on its way."""

    lakefs: Proxy
    conductor: Proxy

    def can(self, fault: Fault, call: Call) -> bool:
        """A slow network would also slow whoever asks Conductor whether the lease is over."""
        if isinstance(fault, ExpireLease):
            return call.operation.partition(".")[0] in LAKEFS_PORTS
        return isinstance(fault, LoseAnswer | LoseRequest | Unavailable)

    async def carry(self, fault: Fault, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Break, send, mend; a transfer goes on by itself when the network is mended."""
        try:
            self._break(fault)
            sending = asyncio.ensure_future(send())
            if fault.moment.point in REPEATED_BY_THE_CLIENT:
                await asyncio.wait([sending], timeout=BROKEN_SECONDS)
                self._mend()
            return await sending
        finally:
            self._mend()

    def _mend(self) -> None:
        for proxy in (self.lakefs, self.conductor):
            proxy.remove_toxics()
            proxy.set_enabled(enabled=True)

    def _break(self, fault: Fault) -> None:
        if isinstance(fault, ExpireLease):
            self.lakefs.add_toxic("latency", direction="upstream", latency=LATE_MS)
            return
        for proxy in (self.lakefs, self.conductor):
            match fault:
                case LoseAnswer():
                    # Cut at the first byte of the answer: by then the effect has happened.
                    proxy.add_toxic("limit_data", direction="downstream", bytes=1)
                case LoseRequest():
                    proxy.add_toxic("timeout", direction="upstream", timeout=500)
                case _:
                    proxy.set_enabled(enabled=False)


@contextmanager
def toxic_ground(
    toxiproxy: ToxiproxyServer, lakefs: LakefsServer, conductor: ConductorServer
) -> Generator[RemoteServers]:
    """A real ground whose workers, and nobody else, suffer from the network."""
    with (
        toxiproxy.proxied(lakefs.endpoint) as to_lakefs,
        toxiproxy.proxied(conductor.endpoint) as to_conductor,
    ):
        servers = RealServers(
            lakefs_url=to_lakefs.endpoint,
            access_key_id=lakefs.access_key_id,
            secret_access_key=lakefs.secret_access_key,
            namespace_root=lakefs.namespace_root,
            conductor_url=f"{to_conductor.endpoint}/api",
        )
        ground = RemoteServers(servers, ToxicNetwork(to_lakefs, to_conductor))
        yield ground
        ground.close()
