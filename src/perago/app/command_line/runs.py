"""`perago runs REPO` and `perago abandon RUN`: runs that have begun and are not published."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from perago.app.command_line.reporting import (
    CommandUsageError,
    JsonOption,
    note,
    reports_errors_by_class,
    say,
    say_json,
    warn,
)
from perago.app.runs.held_changes import all_repositories
from perago.app.runs.held_runs import HeldRun, abandon_run, find_run, held_runs, with_workflow
from perago.app.settings.runtime_config import connections_of
from perago.app.settings.settings import load_settings
from perago.domain.errors import RuntimeConfigError
from perago.domain.logical_execution import RepositoryId
from perago.domain.run import RunKey
from perago.ports.errors import ServiceError
from perago.ports.installations import ConductorInstallation, LakeFSInstallation

Answer = TypeVar("Answer")


@reports_errors_by_class
def runs(
    repository: Annotated[str, typer.Argument(metavar="REPO", help="Name of the repository.")],
    *,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="BRANCH", help="Only runs that will publish there."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs of a repository that are not published.

    The target and the state of the workflow come from Conductor; without it they are unknown.
    """
    found, unreached = _ask(lambda lakefs, conductor: _list(lakefs, conductor, repository))
    if unreached is not None and branch is not None:
        raise unreached  # which run is for which branch, only Conductor knows
    shown = [run for run in found if branch is None or run.target == branch]
    if as_json:
        say_json("runs/1", {"repository": repository, "runs": [_row(run) for run in shown]})
        return
    for run in shown:
        target, status = run.target or "unknown target", run.status or "unknown workflow"
        say(f"{run.key}  {run.publications} publications for {target}, {status}")
    if unreached is not None:
        warn(f"targets and workflows are unknown without Conductor: {unreached}")
    note(f"{len(shown)} runs; `perago diff RUN` shows what one would change")


@reports_errors_by_class
def abandon(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Key or branch of a run, or the id of its workflow."),
    ],
    *,
    repository: Annotated[
        str | None,
        typer.Option("--repo", metavar="REPO", help="Look here only. Default: everywhere."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also if Conductor does not know the workflow.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove the branch of a run that nobody will finish.

    The target has nothing of it and stays as it is. The workflow of the run must have ended.
    """

    async def remove(
        lakefs: LakeFSInstallation, conductor: ConductorInstallation | None
    ) -> tuple[RepositoryId, RunKey, list[str]]:
        searched = [RepositoryId(repository)] if repository else await all_repositories(lakefs)
        found = await find_run(lakefs, run, searched)
        if found is None:
            where = repository or f"{len(searched)} repositories"
            raise CommandUsageError(f"expected a run, found {run!r}, which is not in {where}")
        home, key, _ = found
        workflows = None if conductor is None else conductor.workflows
        return home, key, await abandon_run(lakefs, workflows, home, key, force=force)

    home, key, removed = _ask(remove)
    if as_json:
        say_json("abandon/1", {"repository": home, "run": key, "removed": removed})
        return
    for name in removed:
        say(f"removed: {name}")


async def _list(
    lakefs: LakeFSInstallation, conductor: ConductorInstallation | None, repository: str
) -> tuple[list[HeldRun], Exception | None]:
    found = [run async for run in held_runs(lakefs, RepositoryId(repository))]
    if conductor is None:
        return found, RuntimeConfigError("no Conductor is configured; set PERAGO_CONDUCTOR")
    try:
        return [await with_workflow(conductor.workflows, run) for run in found], None
    except ServiceError as error:
        return found, error


def _row(run: HeldRun) -> dict[str, object]:
    facts = {"key": run.key, "branch": run.branch, "base": run.base, "head": run.head}
    more = {"publications": run.publications, "target": run.target, "status": run.status}
    return {**facts, "workflow": run.workflow_id, **more}


def _ask(
    question: Callable[[LakeFSInstallation, ConductorInstallation | None], Awaitable[Answer]],
) -> Answer:
    """Ask with the servers that are configured; lakeFS alone knows most of a run."""
    from perago.app.container import Container  # noqa: PLC0415  # heavy, and needed late

    connections = connections_of(load_settings())
    container = Container(connections=connections)

    async def ask() -> Answer:
        lakefs = container.lakefs()
        conductor = None if connections.conductor is None else container.conductor()
        try:
            return await question(lakefs, conductor)
        finally:
            await lakefs.close()
            if conductor is not None:
                await conductor.close()

    return asyncio.run(ask())
