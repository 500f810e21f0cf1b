"""A TCP forwarder that counts: how many bytes a client of lakeFS really moved.

Knows nothing of HTTP. One thread a direction; it ends with the test.
"""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

CHUNK_BYTES = 256 * 1024


@dataclass
class CountedBytes:
    """Where to connect, and what has passed so far."""

    endpoint: str
    bytes: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def add(self, count: int) -> None:
        """Count bytes of either direction."""
        with self._counting:
            self.bytes += count


@contextmanager
def counted(upstream: str) -> Generator[CountedBytes]:
    """Forward a free local port to a server for the time of the block."""
    address = urlsplit(upstream)
    assert address.hostname is not None
    assert address.port is not None
    target = (address.hostname, address.port)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        count = CountedBytes(f"http://127.0.0.1:{listener.getsockname()[1]}")
        threading.Thread(target=_accept, args=(listener, target, count), daemon=True).start()
        yield count
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, target: tuple[str, int], count: CountedBytes) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        far = socket.create_connection(target)
        for ends in ((near, far), (far, near)):
            threading.Thread(target=_pump, args=(*ends, count), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket, count: CountedBytes) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            count.add(len(data))
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
