"""`perago watch WORKFLOW_ID`: what the servers know of a workflow, as a page that follows it.

The page is that of `perago dev`, on real servers. It is served on loopback to GET alone and shows
no key. `perago.app.inspection.watcher` decides when the servers are asked again.
`serve_until_interrupted` serves the pages of `perago dev` and `demo`, too.
"""

import asyncio
import os
import signal
import threading
import webbrowser
from collections.abc import Callable
from contextlib import AsyncExitStack
from http.server import ThreadingHTTPServer
from time import monotonic
from typing import Annotated

import typer

from perago.app.command_line.attempts import inspection_tools
from perago.app.command_line.reporting import CommandUsageError, JsonOption, note, say_json
from perago.app.command_line.services import LeftBranch, LeftRepository, opened_services
from perago.app.inspection.attempts import Question
from perago.app.inspection.watcher import Watcher
from perago.app.page.model import PageView, page_document
from perago.app.page.page_server import LOOPBACK, Shown, page_server
from perago.app.settings.settings import load_settings
from perago.domain.text import Secrets

LOOK_SECONDS = 0.5  # between two looks for changed files; a saved file is shown at once to an eye


def watch(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW_ID", help="Id of the workflow.")],
    *,
    repository: LeftRepository = None,
    branch: LeftBranch = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0: any free port.")
    ] = 0,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a workflow on a page that follows it: attempts, commits, decisions, runs.

    The page is on 127.0.0.1 and changes nothing. It asks Conductor and lakeFS again, from every 2
    to every 15 seconds, until the workflow has ended. Ctrl-C ends the command.
    """
    from perago.app.start_worker import known_secrets  # noqa: PLC0415 - heavy

    if branch is not None and repository is None:
        raise CommandUsageError("--branch needs --repo REPO")
    settings = load_settings()
    question = Question(workflow, repository, branch, decisions_kept=settings.gc_tag_ttl)
    with asyncio.Runner() as runner:
        parts = AsyncExitStack()
        services = runner.run(parts.enter_async_context(opened_services(settings)))
        try:
            masked = Secrets.of(known_secrets(settings, os.environ)).masked
            title = f"perago watch {workflow}"
            watcher = Watcher(inspection_tools(services), question, title, masked)
            first = runner.run(watcher.read())
            if as_json:
                say_json("watch/1", page_document(first))
                return
            _serve(runner, watcher, Shown(first), port, open_page=open_page)
        finally:
            runner.run(parts.aclose())


def _serve(
    runner: asyncio.Runner, watcher: Watcher, shown: Shown, port: int, *, open_page: bool
) -> None:
    """Serve, and read again whenever it is time, until interrupted."""
    due = monotonic() + watcher.wait
    if not shown.page.live:
        _say_that_it_ended(shown.page)

    def look() -> None:
        nonlocal due
        if not shown.page.live or monotonic() < due:
            return
        page = runner.run(watcher.read())
        if page is not shown.page:
            shown.update(page)
            if not page.live:
                _say_that_it_ended(page)
        due = monotonic() + watcher.wait

    serve_until_interrupted(shown, port, look, open_page=open_page)


def _say_that_it_ended(page: PageView) -> None:
    statuses = ", ".join(each.status for scene in page.scenes for each in scene.workflows)
    note(f"the workflow has ended ({statuses}): the servers are not asked again")


def serve_until_interrupted(
    shown: Shown, port: int, look: Callable[[], None] = lambda: None, *, open_page: bool
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
