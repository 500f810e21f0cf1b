"""Serves a page until it is interrupted, looking now and then whether there is something new."""

import signal
import threading
import webbrowser
from collections.abc import Callable

from perago.app.command_line.reporting import note
from perago.testing.dev.page_server import LOOPBACK, Shown, page_server

LOOK_SECONDS = 0.5


def nothing_new() -> None:
    """For what does not change."""


def serve_until_interrupted(
    shown: Shown, port: int, look: Callable[[], None] = nothing_new, *, open_page: bool
) -> None:
    """Serve on loopback; `look` may put something else on the page."""
    # Both are set: who is started in the background of a script inherits an ignored Ctrl-C.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    server = page_server(shown, port)
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
