"""`perago forget WORKFLOW REFERENCE`: remove decisions, so that a task is computed anew."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, cast

import typer

from perago.app.command_line.reporting import (
    CommandUsageError,
    JsonOption,
    note,
    reports_errors_by_class,
    say,
    say_json,
)
from perago.app.fence.forget import Forgotten
from perago.app.fence.forget import forget as forget_task
from perago.app.settings.server_connections import connections_of
from perago.app.settings.settings import load_settings
from perago.domain.references import RepositoryId
from perago.ports.workflows import Workflows


@reports_errors_by_class
def forget(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="Id of the workflow.")],
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="Reference name of the task.")
    ],
    *,
    repository: Annotated[
        str | None,
        typer.Option("--repo", metavar="REPO", help="Repository, if Conductor forgot the task."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Remove the decisions and marks of a task whose workflow is not running."""
    forgotten = asyncio.run(_forget(repository, workflow, reference))
    if as_json:
        names = {"decisions": list(forgotten.decisions), "marks": list(forgotten.marks)}
        say_json("forget/1", {**names, "branches": list(forgotten.branches)})
        return
    for name in (*forgotten.decisions, *forgotten.marks, *forgotten.branches):
        say(f"removed: {name}")
    if not forgotten.decisions:
        note(f"no decision of {reference} in workflow {workflow} was found")


async def _forget(repository: str | None, workflow: str, reference: str) -> Forgotten:
    from perago.app.container import Container  # noqa: PLC0415  # heavy, and needed late

    container = Container(connections=connections_of(load_settings()))
    try:
        found = repository or await _repository_of(
            container.conductor().workflows, workflow, reference
        )
        return await forget_task(container.forget_tools(), RepositoryId(found), workflow, reference)
    finally:
        await container.lakefs().close()
        await container.conductor().close()


async def _repository_of(workflows: Workflows, workflow: str, reference: str) -> str:
    """The repository in the task's own input."""
    record = await workflows.read(workflow)
    for attempt in record.attempts if record else ():
        place = attempt.input_data.get("workspace")
        if attempt.snapshot.reference_name == reference and isinstance(place, Mapping):
            return str(cast("Mapping[str, object]", place).get("repository"))
    text = f"Conductor knows no workspace of {reference} in workflow {workflow}; give --repo"
    raise CommandUsageError(text)
