"""Unit tests talk to nobody: while one runs, connecting or listening is an error.

An audit hook sees every socket of the interpreter, whoever opened it, and replaces nothing.
Pairs of sockets stay possible: asyncio wakes its loop with one.
"""

import sys
from collections.abc import Generator

import pytest

FORBIDDEN = frozenset({"socket.connect", "socket.bind", "socket.getaddrinfo"})


class SocketUsedError(Exception):
    """A unit test reached for the network."""


class _Guard:
    """Interpreters cannot forget an audit hook, so the hook asks whether it is on duty."""

    def __init__(self) -> None:
        self.on_duty = False
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.on_duty and event in FORBIDDEN:
            raise SocketUsedError(f"{event}{arguments[1:]} in a unit test; use a memory adapter")


_GUARD = _Guard()


@pytest.fixture(autouse=True)
def _no_sockets(pytestconfig: pytest.Config) -> Generator[None]:
    """Off duty when the kit's tests are sent to real servers: `--perago-backend=real`."""
    _GUARD.on_duty = pytestconfig.getoption("--perago-backend") == "memory"
    yield
    _GUARD.on_duty = False
