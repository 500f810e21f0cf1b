"""The guard around unit tests: it stops connections and leaves event loops alone."""

import asyncio
import socket

import pytest


@pytest.mark.parametrize("address", [("127.0.0.1", 9), ("localhost", 9)], ids=str)
def test_a_connection_is_refused_before_it_leaves(address: tuple[str, int]) -> None:
    with pytest.raises(Exception, match="in a unit test; use a memory adapter"):
        socket.create_connection(address)


def test_listening_is_refused() -> None:
    with (
        socket.socket() as listener,
        pytest.raises(Exception, match=r"socket\.bind.* in a unit test"),
    ):
        listener.bind(("127.0.0.1", 0))


async def test_an_event_loop_still_wakes_up() -> None:
    assert await asyncio.to_thread(lambda: 1) == 1
