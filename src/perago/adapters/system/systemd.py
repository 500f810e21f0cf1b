"""Tells systemd how a service of `Type=notify` is; without one nothing is told.

Knows the socket's name only; when something is told is decided elsewhere.
"""

import os
import socket
from contextlib import suppress

SOCKET_VARIABLE = "NOTIFY_SOCKET"


def notify_service(text: str) -> None:
    """Send one notice, such as `READY=1`."""
    address = os.environ.get(SOCKET_VARIABLE)
    if not address:
        return
    path = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.sendto(text.encode(), path)
