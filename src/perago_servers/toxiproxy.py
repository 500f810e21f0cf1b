"""A real toxiproxy: latency, resets and black holes between a client and a server.

Decides how proxies and their toxics are named and removed. Must not know who is behind them.
"""

import itertools
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from perago_servers.go_programs import toxiproxy_program
from perago_servers.http import answers, ask
from perago_servers.process import HOST, Launch, Server, running

Direction = Literal["upstream", "downstream"]
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """One proxied server; `endpoint` is what the client is given instead of the real one."""

    control: str
    name: str
    endpoint: str

    def add_toxic(
        self,
        kind: str,
        *,
        direction: Direction = "downstream",
        toxicity: float = 1.0,
        **attributes: float,
    ) -> None:
        """Add a toxic of toxiproxy's: latency, timeout, reset_peer, bandwidth, limit_data."""
        _command(
            "POST",
            f"{self.control}/proxies/{self.name}/toxics",
            {
                "name": f"{kind}_{direction}_{next(_numbers)}",
                "type": kind,
                "stream": direction,
                "toxicity": toxicity,
                "attributes": attributes,
            },
        )

    def remove_toxics(self) -> None:
        """Let everything pass again, at full speed."""
        toxics = _command("GET", f"{self.control}/proxies/{self.name}/toxics")
        for toxic in json.loads(toxics):
            _command("DELETE", f"{self.control}/proxies/{self.name}/toxics/{toxic['name']}")

    def set_enabled(self, *, enabled: bool) -> None:
        """Refuse new connections and cut the open ones, or accept again."""
        _command("POST", f"{self.control}/proxies/{self.name}", {"enabled": enabled})

    def delete(self) -> None:
        """Remove the proxy."""
        _command("DELETE", f"{self.control}/proxies/{self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxiproxyServer(Server):
    """A running toxiproxy; `endpoint` is its control API."""

    def create_proxy(self, upstream: str) -> Proxy:
        """Put a proxy on a free port in front of the server with the endpoint `upstream`."""
        parts = urlsplit(upstream)
        name = f"{parts.port}_{next(_numbers)}"
        body = {"name": name, "listen": f"{HOST}:0", "upstream": parts.netloc, "enabled": True}
        listen = json.loads(_command("POST", f"{self.endpoint}/proxies", body))["listen"]
        return Proxy(control=self.endpoint, name=name, endpoint=f"http://{listen}{parts.path}")

    @contextmanager
    def proxied(self, upstream: str) -> Generator[Proxy]:
        """Put a proxy in front of `upstream` for the length of a block."""
        proxy = self.create_proxy(upstream)
        try:
            yield proxy
        finally:
            proxy.delete()

    @contextmanager
    def distant(self, upstream: str, rtt_ms: int) -> Generator[str]:
        """The address of `upstream`, so many milliseconds there and back; itself for none."""
        if not rtt_ms:
            yield upstream
            return
        with self.proxied(upstream) as proxy:
            proxy.add_toxic("latency", direction="upstream", latency=rtt_ms // 2)
            proxy.add_toxic("latency", direction="downstream", latency=rtt_ms - rtt_ms // 2)
            yield proxy.endpoint


@contextmanager
def toxiproxy_server() -> Generator[ToxiproxyServer]:
    """Run a toxiproxy of its own."""
    program = toxiproxy_program()

    def plan(port: int, _directory: Path) -> Launch:
        return Launch(
            command=[str(program), "-host", HOST, "-port", str(port)],
            is_ready=lambda: answers(f"http://{HOST}:{port}/version"),
        )

    with running("toxiproxy", plan, ToxiproxyServer) as server:
        yield server


def _command(method: str, url: str, body: object = None) -> bytes:
    status, answer = ask(method, url, body=body)
    if status >= HTTPStatus.BAD_REQUEST:
        raise OSError(f"toxiproxy refused {method} {url} with {status}: {answer!r}")
    return answer
