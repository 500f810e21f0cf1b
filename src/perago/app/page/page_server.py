"""The page as a web page on loopback: its files, what it shows as JSON, and who may ask.

`answer` serves GET of a handful of paths and refuses foreign host names. The script of the page
asks again for `/page.json` and gets 304 while nothing has changed. Nothing here asks a server.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files

from perago.app.page.commit_graph import branch_graph
from perago.app.page.model import PageView, page_document

LOOPBACK = "127.0.0.1"  # the page shows what is in repositories and asks for no password
# A web page elsewhere can have its own name point at 127.0.0.1; its requests carry that name.
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
    """What the page shows now."""

    page: PageView
    version: int = 0
    _body: str = field(default="", init=False)

    def update(self, page: PageView) -> None:
        """Show something else."""
        self.page, self.version, self._body = page, self.version + 1, ""

    @property
    def tag(self) -> str:
        """The HTTP entity tag of what is shown."""
        return f'"{self.version}"'

    @property
    def body(self) -> str:
        """The document with its pictures; written once, however many browsers ask."""
        if not self._body:
            graphs = [
                [asdict(branch_graph(each)) for each in scene.repositories]
                for scene in self.page.scenes
            ]
            self._body = json.dumps({"page": page_document(self.page), "graphs": graphs})
        return self._body


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer before it is sent."""

    status: HTTPStatus
    kind: str
    body: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def answer(shown: Shown, path: str, host: str, port: int, if_none_match: str = "") -> Answer:
    """What a GET gets; a foreign host name (a rebound DNS name) gets nothing."""
    if host not in {f"{name}:{port}" for name in HOST_NAMES}:
        return Answer(HTTPStatus.MISDIRECTED_REQUEST, TEXT, "this page is served to loopback only")
    parts: dict[str, Callable[[], Answer]] = {
        "/": lambda: Answer(HTTPStatus.OK, HTML, page_html(shown.page.title)),
        "/page.json": lambda: _page_json(shown, if_none_match),
        "/page.css": lambda: Answer(HTTPStatus.OK, "text/css", _resource("page.css")),
        "/page.js": lambda: Answer(HTTPStatus.OK, "text/javascript", _resource("page.js")),
    }
    part = parts.get(path)
    return part() if part else Answer(HTTPStatus.NOT_FOUND, TEXT, "there is no such page")


def _page_json(shown: Shown, if_none_match: str) -> Answer:
    headers = {"ETag": shown.tag}
    if if_none_match == shown.tag:
        return Answer(HTTPStatus.NOT_MODIFIED, JSON, "", headers)
    return Answer(HTTPStatus.OK, JSON, shown.body, headers)


def page_html(title: str) -> str:
    """The frame; the script fills it."""
    said = escape(title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" '
        f'content="light dark"><title>{said}</title>'
        '<link rel="stylesheet" href="/page.css">'
        '<script src="/page.js" defer></script></head><body><main id="page">'
        f"<h1>{said}</h1><noscript>This page needs JavaScript.</noscript></main></body></html>"
    )


def _resource(name: str) -> str:
    return (files("perago.app.page") / name).read_text(encoding="utf-8")


def page_server(shown: Shown, port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback, not yet serving; port 0 takes a free one."""

    class PageRequest(BaseHTTPRequestHandler):
        """One request."""

        def do_GET(self) -> None:
            """Answer; other methods are refused by the base class with 501."""
            host, known = self.headers.get("Host", ""), self.headers.get("If-None-Match", "")
            assert isinstance(self.server, ThreadingHTTPServer), "the server made below"
            found = answer(shown, self.path, host, self.server.server_port, known)
            body = found.body.encode()
            self.send_response(found.status)
            self.send_header("Content-Type", f"{found.kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in {**HEADERS, **found.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # a browser may close a page before it has read it
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing: the terminal shows the story."""

    return ThreadingHTTPServer((LOOPBACK, port), PageRequest)
