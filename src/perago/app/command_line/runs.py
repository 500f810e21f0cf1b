"""`perago runs`, `abandon`, `diff` and `reset-task`: what is held back, and how it is given up.

A run holds back its publications until it is finished, a staged commit its changes until it is
published. The comparison of `diff` is that of lakeFS, so nothing is downloaded. `abandon` gives up
a run, `reset-task` what one task has decided.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from perago.app.attempt import reset_task as resetting
from perago.app.command_line import reporting
from perago.app.command_line.services import (
    OneRepository,
    RepositoryName,
    ask,
    branch_option,
    one_or_all,
    repository_option,
    workflows_if_configured,
)
from perago.app.runs import held_runs
from perago.domain.attempt_history import workspace_in
from perago.domain.errors import RuntimeConfigError
from perago.domain.lakefs import BranchName, RepositoryId
from perago.domain.run import RunKey, start_anew
from perago.domain.text import in_units
from perago.ports.asking import all_changes
from perago.ports.conductor import Workflows
from perago.ports.errors import ServiceError
from perago.ports.lakefs import Change, ChangeKind

if TYPE_CHECKING:
    from perago.app.container import Container

_SIGNS = {ChangeKind.ADDED: "+", ChangeKind.CHANGED: "~", ChangeKind.REMOVED: "-"}


def runs(
    repository: RepositoryName,
    *,
    branch: Annotated[
        BranchName | None, branch_option("Only runs that will publish there.")
    ] = None,
    as_json: reporting.JsonOption = False,
) -> None:
    """List the runs of a repository that are not published.

    The target and the state of the workflow come from Conductor; without it they are unknown.
    If it did not answer, the exit code is 6.
    """
    found, unreached = ask(lambda services: _list(services, repository))
    if unreached is not None and branch is not None:
        raise unreached  # which run is for which branch, only Conductor knows
    shown = [run for run in found if branch is None or run.target == branch]
    if as_json:
        reporting.say_json(
            "runs/1", {"repository": repository, "runs": [_row(run) for run in shown]}
        )
    else:
        _print(repository, branch, shown, unreached)
    if isinstance(unreached, ServiceError):
        raise typer.Exit(reporting.UNANSWERED)


def _print(
    repository: str, branch: str | None, shown: list[held_runs.HeldRun], unreached: Exception | None
) -> None:
    for run in shown:
        target, status = run.target or "unknown target", run.status or "unknown workflow"
        reporting.say(f"{run.key}  {run.publications} publications for {target}, {status}")
    if unreached is not None:
        reporting.warn(f"targets and workflows are unknown without Conductor: {unreached}")
    if not shown:
        reporting.note(f"no run of {repository} is held{f' for {branch}' if branch else ''}")
        return
    reporting.note(
        f"{len(shown)} runs; `perago diff RUN` shows what one would change,"
        " and `perago abandon RUN` removes it"
    )


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
    as_json: reporting.JsonOption = False,
) -> None:
    """Remove the branch of a run that will not be finished.

    The target has nothing of it and stays as it is. The workflow of the run must have ended.
    """

    async def remove(services: "Container") -> tuple[RepositoryId, RunKey, list[str]]:
        lakefs, workflows = services.lakefs(), workflows_if_configured(services)
        searched = await one_or_all(lakefs, repository)
        found = await held_runs.find_run(lakefs, run, searched)
        if found is None:
            where = repository or f"{len(searched)} repositories"
            raise reporting.CommandUsageError(
                f"expected a run, found {run!r}, which is not in {where}"
            )
        home, key, _ = found
        return home, key, await held_runs.abandon_run(lakefs, workflows, home, key, force=force)

    home, key, removed = ask(remove)
    document = {"repository": home, "run": key, "removed": removed}
    lines = (f"removed: {name}" for name in removed)
    reporting.say_answer("abandon/1", document, lines, as_json=as_json)


async def _list(
    services: "Container", repository: str
) -> tuple[list[held_runs.HeldRun], Exception | None]:
    found = [run async for run in held_runs.held_runs(services.lakefs(), RepositoryId(repository))]
    workflows = workflows_if_configured(services)  # lakeFS alone knows most of a run
    if workflows is None:
        return found, RuntimeConfigError("no Conductor is configured; set PERAGO_CONDUCTOR")
    try:
        return [await held_runs.with_workflow(workflows, run) for run in found], None
    except ServiceError as error:
        return found, error


def _row(run: held_runs.HeldRun) -> dict[str, object]:
    facts = {"key": run.key, "branch": run.branch, "base": run.base, "head": run.head}
    more = {"publications": run.publications, "target": run.target, "status": run.status}
    return {**facts, "workflow": run.workflow_id, **more}


def diff(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Key, branch or workflow of a run, or an execution id."
        ),
    ],
    *,
    repository: OneRepository = None,
    stat: Annotated[
        bool, typer.Option("--stat", help="Count by folder instead of naming each object.")
    ] = False,
    as_json: reporting.JsonOption = False,
) -> None:
    """Show what a run or a staged commit would change on its target, by object, with sizes.

    Of a run that is published already it shows what that changed.
    The size of a removed object is not known.
    """
    held, changes = ask(lambda services: _read_changes(services, name, repository))
    if as_json:
        reporting.say_json("diff/1", _diff_document(held, changes, stat=stat))
        return
    if stat:
        for folder, counts in _by_folder(changes).items():
            reporting.say(f"{_counted(counts)}  {folder}")
    else:
        for change in changes:
            size = "" if change.entry is None else f"  {in_units(change.entry.size)}"
            reporting.say(f"{_SIGNS[change.kind]} {change.path}{size}")
    reporting.note(f"{held.repository}: {held.base} to {held.head} ({held.branch})")
    reporting.note(_total(changes))
    if held.is_published:
        reporting.note(
            f"the run is published as {held.head} on {held.branch};"
            f" `lakectl log --first-parent lakefs://{held.repository}/{held.branch}` shows it"
        )


async def _read_changes(
    services: "Container", name: str, repository: RepositoryId | None
) -> tuple[held_runs.HeldChanges, list[Change]]:
    lakefs, workflows = services.lakefs(), workflows_if_configured(services)
    searched = await one_or_all(lakefs, repository)
    held = await held_runs.find_held(lakefs, name, searched)
    if held is None and workflows is not None:
        held = await held_runs.find_published(lakefs, workflows, name)
    if held is None:
        where = repository or f"{len(searched)} repositories"
        text = f"expected a run, an execution or a private branch, found {name!r}"
        raise reporting.CommandUsageError(f"{text}, which is not or no longer in {where}")
    changes = all_changes(lakefs.commits, held.repository, held.base, held.head)
    return held, [change async for change in changes]


def _diff_document(
    held: held_runs.HeldChanges, changes: Sequence[Change], *, stat: bool
) -> dict[str, object]:
    named = {"repository": held.repository, "branch": held.branch, "published": held.is_published}
    document = {**named, "base": held.base, "head": held.head, "total": _counts(changes)}
    if stat:
        return {**document, "folders": _by_folder(changes)}
    rows = [
        {
            "path": change.path,
            "kind": change.kind,
            "bytes": None if change.entry is None else change.entry.size,
        }
        for change in changes
    ]
    return {**document, "changes": rows}


def _counts(changes: Iterable[Change]) -> dict[str, int]:
    """Objects by what happened to them, and the bytes of those that are there afterwards."""
    counts = Counter({kind.value: 0 for kind in ChangeKind})
    size = 0
    for change in changes:
        counts[change.kind.value] += 1
        size += 0 if change.entry is None else change.entry.size
    return {**counts, "bytes": size}


def _by_folder(changes: Iterable[Change]) -> dict[str, dict[str, int]]:
    folders: dict[str, list[Change]] = {}
    for change in changes:
        folders.setdefault(change.path.rpartition("/")[0] + "/", []).append(change)
    return {folder: _counts(inside) for folder, inside in folders.items()}


def _counted(counts: dict[str, int]) -> str:
    signs = (f"{sign}{counts[kind.value]}" for kind, sign in _SIGNS.items() if counts[kind.value])
    return f"{' '.join(signs)} {in_units(counts['bytes'])}"


def _total(changes: Sequence[Change]) -> str:
    counts = _counts(changes)
    kinds = ", ".join(f"{counts[kind.value]} {kind.value}" for kind in _SIGNS)
    return f"{kinds}; {in_units(counts['bytes'])} are new or changed"


def reset_task(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="Id of the workflow.")],
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="Reference name of the task.")
    ],
    *,
    repository: Annotated[
        RepositoryId | None, repository_option("Repository, if Conductor no longer has the task.")
    ] = None,
    as_json: reporting.JsonOption = False,
) -> None:
    """Discard a task's stored result, so that the next attempt runs the code again.

    The workflow must not be running. Later attempts ignore what earlier ones decided or published.
    What is published stays on its branch.
    """
    done = ask(lambda services: _reset(services, repository, workflow, reference))
    if as_json:
        published = [each.record.commit for each in done.published]
        names = {"decisions": done.decisions, "branches": done.branches, "marks": done.marks}
        reporting.say_json("reset-task/1", {**names, "published": published})
        return
    if done.marks or done.decisions:
        reporting.say(
            f"reset: {reference} of workflow {workflow}; its next attempt runs the task function"
        )
    else:
        text = f"no attempt of {reference} in workflow {workflow} has decided anything"
        reporting.note(f"nothing to reset: {text}")
    for name in done.marks:
        reporting.say(f"left: {name}")
    for gone in (*done.decisions, *done.branches):
        reporting.say(f"removed: {gone}")
    for each in done.published:
        workspace = each.workspace
        text = (
            f"{each.record.commit} stays published on {workspace.branch}; a retry on the old input"
        )
        reporting.note(
            f"{text} will be refused; {start_anew(workspace.repository, workspace.branch)}"
        )


async def _reset(
    services: "Container", repository: RepositoryId | None, workflow: str, reference: str
) -> resetting.Reset:
    workflows = services.conductor().workflows
    found = repository or await _repository_of(workflows, workflow, reference)
    return await resetting.reset_task(services.reset_tools(), found, workflow, reference)


async def _repository_of(workflows: Workflows, workflow: str, reference: str) -> RepositoryId:
    """The repository in the task's own input."""
    record = await workflows.read(workflow)
    for attempt in record.attempts if record else ():
        repository = workspace_in(attempt.input_data).get("repository")
        if attempt.snapshot.reference_name == reference and repository is not None:
            return RepositoryId(str(repository))
    text = f"Conductor has no workspace of {reference} in workflow {workflow}; add --repo REPO"
    raise reporting.CommandUsageError(text)
