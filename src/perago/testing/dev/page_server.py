"""Serves the page on loopback: read-only, own host names only, nothing cached, nothing foreign.

Decides who may ask for what. What the page shows is handed in.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files

from perago.testing.dev.page import page_html, worlds_html

LOOPBACK = "127.0.0.1"
HOST_NAMES = (LOOPBACK, "localhost")
HTML, JSON, TEXT = "text/html", "application/json", "text/plain"
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(slots=True)
class Shown:
    """What the page shows now; `version` counts."""

    document: Mapping[str, object]
    version: int = 0

    def update(self, document: Mapping[str, object]) -> None:
        """Show something else."""
        self.document, self.version = document, self.version + 1


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer before it is sent."""

    status: HTTPStatus
    kind: str
    body: str


def answer(shown: Shown, path: str, host: str, port: int) -> Answer:
    """What a GET gets; a foreign host name (a rebound DNS name) gets nothing."""
    if host not in {f"{name}:{port}" for name in HOST_NAMES}:
        return Answer(HTTPStatus.MISDIRECTED_REQUEST, TEXT, "this page is served to loopback only")
    parts: dict[str, Callable[[], Answer]] = {
        "/": lambda: Answer(HTTPStatus.OK, HTML, page_html(shown.document)),
        "/worlds.html": lambda: Answer(HTTPStatus.OK, HTML, worlds_html(shown.document)),
        "/story.json": lambda: Answer(HTTPStatus.OK, JSON, json.dumps(shown.document)),
        "/version": lambda: Answer(HTTPStatus.OK, TEXT, str(shown.version)),
        "/page.css": lambda: Answer(HTTPStatus.OK, "text/css", _resource("page.css")),
        "/page.js": lambda: Answer(HTTPStatus.OK, "text/javascript", _resource("page.js")),
    }
    part = parts.get(path)
    return part() if part else Answer(HTTPStatus.NOT_FOUND, TEXT, "there is no such page")


def page_server(shown: Shown, port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback, not yet serving; port 0 takes a free one."""

    class PageRequest(BaseHTTPRequestHandler):
        """One request."""

        def do_GET(self) -> None:
            """Answer; other methods are refused by the base class with 501."""
            host = self.headers.get("Host", "")
            assert isinstance(self.server, ThreadingHTTPServer), "the server made below"
            found = answer(shown, self.path, host, self.server.server_port)
            body = found.body.encode()
            self.send_response(found.status)
            self.send_header("Content-Type", f"{found.kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing: the terminal shows the story."""

    return ThreadingHTTPServer((LOOPBACK, port), PageRequest)


def _resource(name: str) -> str:
    return (files("perago.testing.dev") / name).read_text(encoding="utf-8")
