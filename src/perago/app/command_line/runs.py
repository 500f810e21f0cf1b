"""`perago runs REPO` and `perago abandon RUN`: runs that have begun and are not published."""

from typing import TYPE_CHECKING, Annotated

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
from perago.app.command_line.services import OneRepository, ask, conductor_if_configured, one_or_all
from perago.app.runs.held_runs import HeldRun, abandon_run, find_run, held_runs, with_workflow
from perago.domain.errors import RuntimeConfigError
from perago.domain.logical_execution import RepositoryId
from perago.domain.run import RunKey
from perago.ports.errors import ServiceError

if TYPE_CHECKING:
    from perago.app.container import Container


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
    found, unreached = ask(lambda services: _list(services, repository))
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
    if not shown:
        note(f"no run of {repository} is held{f' for {branch}' if branch else ''}")
        return
    note(
        f"{len(shown)} runs; `perago diff RUN` shows what one would change,"
        " and `perago abandon RUN` removes it"
    )


@reports_errors_by_class
def abandon(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Key or branch of a run, or the id of its workflow."),
    ],
    *,
    repository: OneRepository = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also if Conductor does not know the workflow.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove the branch of a run that will not be finished.

    The target has nothing of it and stays as it is. The workflow of the run must have ended.
    """

    async def remove(services: "Container") -> tuple[RepositoryId, RunKey, list[str]]:
        lakefs, conductor = services.lakefs(), conductor_if_configured(services)
        searched = await one_or_all(lakefs, repository)
        found = await find_run(lakefs, run, searched)
        if found is None:
            where = repository or f"{len(searched)} repositories"
            raise CommandUsageError(f"expected a run, found {run!r}, which is not in {where}")
        home, key, _ = found
        workflows = None if conductor is None else conductor.workflows
        return home, key, await abandon_run(lakefs, workflows, home, key, force=force)

    home, key, removed = ask(remove)
    if as_json:
        say_json("abandon/1", {"repository": home, "run": key, "removed": removed})
        return
    for name in removed:
        say(f"removed: {name}")


async def _list(services: "Container", repository: str) -> tuple[list[HeldRun], Exception | None]:
    found = [run async for run in held_runs(services.lakefs(), RepositoryId(repository))]
    conductor = conductor_if_configured(services)  # lakeFS alone knows most of a run
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
