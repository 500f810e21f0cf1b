"""Serves the page of a command until Ctrl-C, and prints its address."""

import signal
import threading
import webbrowser
from collections.abc import Callable
from http.server import ThreadingHTTPServer

from perago.app.command_line.reporting import CommandUsageError, note
from perago.app.page.page_server import LOOPBACK, Shown, page_server

LOOK_SECONDS = 0.5  # between two looks for changed files; a saved file is shown at once to an eye


def nothing_new() -> None:
    """For what does not change."""


def serve_until_interrupted(
    shown: Shown, port: int, look: Callable[[], None] = nothing_new, *, open_page: bool
) -> None:
    """Serve on loopback; `look` may put something else on the page."""
    # Both are set: who is started in the background of a script inherits an ignored Ctrl-C.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    server = _bound(shown, port)
    url = f"http://{LOOPBACK}:{server.server_port}/"
    note(f"{url} (Ctrl-C ends)")
    if open_page:
        webbrowser.open(url)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        while True:
            look()
            serving.join(LOOK_SECONDS)
    except KeyboardInterrupt:
        note("stopped")
    finally:
        server.shutdown()
        server.server_close()


def _bound(shown: Shown, port: int) -> ThreadingHTTPServer:
    try:
        return page_server(shown, port)
    except (OSError, OverflowError) as error:
        text = f"--port {port} of {LOOPBACK}: {error}; without --port a free one is taken"
        raise CommandUsageError(text) from error
