"""`perago watch WORKFLOW_ID`: what the servers know of a workflow, as a page that follows it.

The page is that of `perago dev`, on real servers. It is served on loopback to GET alone and shows
no key. `perago.app.inspection.watcher` decides when the servers are asked again.
"""

import asyncio
import os
from contextlib import AsyncExitStack
from time import monotonic
from typing import Annotated

import typer

from perago.app.command_line.attempts import inspection_tools
from perago.app.command_line.reporting import (
    CommandUsageError,
    JsonOption,
    note,
    reports_errors_by_class,
    say_json,
)
from perago.app.command_line.serve_page import serve_until_interrupted
from perago.app.command_line.services import LeftRepository, opened_services
from perago.app.inspection.attempts import Question
from perago.app.inspection.watcher import Watcher
from perago.app.page.model import PageView, page_document
from perago.app.page.page_server import Shown
from perago.app.settings.settings import Settings, load_settings
from perago.domain.logical_execution import BranchName, RepositoryId
from perago.domain.text import Secrets


@reports_errors_by_class
def watch(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW_ID", help="Id of the workflow.")],
    *,
    repository: LeftRepository = None,
    branch: Annotated[
        str | None,
        typer.Option(metavar="BRANCH", help="Branch. Default: the one of the repository."),
    ] = None,
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
    if branch is not None and repository is None:
        raise CommandUsageError("--branch needs --repo REPO")
    settings = load_settings()
    question = Question(
        workflow,
        None if repository is None else RepositoryId(repository),
        None if branch is None else BranchName(branch),
        decisions_kept=settings.gc_tag_ttl,
    )
    with asyncio.Runner() as runner:
        parts = AsyncExitStack()
        services = runner.run(parts.enter_async_context(opened_services(settings)))
        try:
            watcher = Watcher(inspection_tools(services), question, f"perago watch {workflow}")
            first = runner.run(watcher.read())
            masked = _secrets_of(settings).masked
            if as_json:
                say_json("watch/1", page_document(first, masked))
                return
            _serve(runner, watcher, Shown(first, masked), port, open_page=open_page)
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


def _secrets_of(settings: Settings) -> Secrets:
    """Every secret of the settings and the environment."""
    from perago.app.start_worker import known_secrets  # noqa: PLC0415  # heavy, and needed late

    return Secrets.of(known_secrets(settings, os.environ))
