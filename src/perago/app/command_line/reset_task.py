"""`perago reset-task WORKFLOW REFERENCE`: let a task be computed anew."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, cast

import typer

from perago.app.attempt.reset_task import Reset
from perago.app.attempt.reset_task import reset_task as reset
from perago.app.command_line.reporting import CommandUsageError, JsonOption, note, say, say_json
from perago.app.command_line.services import ask
from perago.domain.lakefs import RepositoryId
from perago.domain.run import start_anew
from perago.ports.conductor import Workflows

if TYPE_CHECKING:
    from perago.app.container import Container


def reset_task(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="Id of the workflow.")],
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="Reference name of the task.")
    ],
    *,
    repository: Annotated[
        str | None,
        typer.Option(
            "--repo", metavar="REPO", help="Repository, if Conductor no longer has the task."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Discard a task's stored result, so that the next attempt runs the code again.

    The workflow must not be running. Later attempts ignore what earlier ones decided or published.
    What is published stays on its branch.
    """
    done = ask(lambda services: _reset(services, repository, workflow, reference))
    if as_json:
        published = [each.record.commit for each in done.published]
        names = {"decisions": done.decisions, "branches": done.branches, "marks": done.marks}
        say_json("reset-task/1", {**names, "published": published})
        return
    if done.marks or done.decisions:
        say(f"reset: {reference} of workflow {workflow}; its next attempt runs the task function")
    else:
        text = f"no attempt of {reference} in workflow {workflow} has decided anything"
        note(f"nothing to reset: {text}")
    for name in done.marks:
        say(f"left: {name}")
    for gone in (*done.decisions, *done.branches):
        say(f"removed: {gone}")
    for each in done.published:
        workspace = each.workspace
        text = (
            f"{each.record.commit} stays published on {workspace.branch}; a retry on the old input"
        )
        note(f"{text} will be refused; {start_anew(workspace.repository, workspace.branch)}")


async def _reset(
    services: "Container", repository: str | None, workflow: str, reference: str
) -> Reset:
    workflows = services.conductor().workflows
    found = repository or await _repository_of(workflows, workflow, reference)
    return await reset(services.reset_tools(), RepositoryId(found), workflow, reference)


async def _repository_of(workflows: Workflows, workflow: str, reference: str) -> str:
    """The repository in the task's own input."""
    record = await workflows.read(workflow)
    for attempt in record.attempts if record else ():
        workspace = attempt.input_data.get("workspace")
        if attempt.snapshot.reference_name == reference and isinstance(workspace, Mapping):
            return str(cast("Mapping[str, object]", workspace).get("repository"))
    text = f"Conductor has no workspace of {reference} in workflow {workflow}; add --repo REPO"
    raise CommandUsageError(text)
