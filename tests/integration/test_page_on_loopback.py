"""The page of `perago dev` and `perago watch` over a real socket: methods, headers, ports."""

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection

import pytest

from perago.app.command_line.reporting import CommandUsageError
from perago.app.command_line.watch import serve_until_interrupted
from perago.app.page.model import PageView
from perago.app.page.page_server import (
    HEADERS,
    LOOPBACK,
    Shown,
    page_server,
)


@pytest.fixture
def port() -> Iterator[int]:
    """A page that is served."""
    with page_server(Shown(PageView("t"))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
def test_only_get_is_answered(port: int, method: str) -> None:
    with closing(HTTPConnection(LOOPBACK, port, timeout=10)) as connection:
        connection.request(method, "/page.json")
        assert connection.getresponse().status == HTTPStatus.NOT_IMPLEMENTED


def test_a_get_has_the_headers_that_keep_it_to_itself(port: int) -> None:
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/page.json", timeout=10) as found:
        assert found.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]
        assert found.headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in found.headers


def test_a_port_that_is_taken_is_named(port: int) -> None:
    with pytest.raises(CommandUsageError, match=f"--port {port} of 127.0.0.1: .*a free one"):
        serve_until_interrupted(Shown(PageView("t")), port, open_page=False)
