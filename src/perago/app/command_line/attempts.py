"""`perago attempts WORKFLOW_ID`: every attempt, how far it came, and what is left of it.

As a table, as a graph of commits (`--tree`) or as one document (`--json`). What is shown was
gathered in `perago.app.inspection.attempts`; nothing is judged here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from perago.app.command_line import reporting
from perago.app.command_line.services import (
    LeftBranch,
    LeftRepository,
    ask,
    workflows_if_configured,
)
from perago.app.inspection.attempts import InspectionTools, Question, gather
from perago.app.settings.parsing import parse_time_to_live
from perago.app.settings.settings import load_settings
from perago.domain import attempt_history as known
from perago.domain import commit_metadata
from perago.domain.attempt import AttemptStatus
from perago.domain.lakefs import CommitRecord
from perago.domain.names import DECISION_TAG_PREFIX

if TYPE_CHECKING:
    from perago.app.container import Container

SINCE = "24h"
SHORT = 8  # digits of an id: enough to tell those of one workflow apart, and lakeFS takes them
# Of each kind below the table, which has every attempt: more would push the table off the screen.
# --json has all.
SHOWN_MAX = 20
HEADINGS = ("TASK", "TRY", "POLLED (UTC)", "WORKER", "STATUS", "CAME TO", "STAGED", "PUBLISHED")


def attempts(
    workflow: Annotated[
        str | None, typer.Argument(metavar="WORKFLOW_ID", help="Id of the workflow.")
    ] = None,
    *,
    repository: LeftRepository = None,
    branch: LeftBranch = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help=f"How far back, without a WORKFLOW_ID. Default: {SINCE}."
        ),
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Show the commits of each branch as a graph.")
    ] = False,
    as_json: reporting.JsonOption = False,
) -> None:
    """Show every attempt of a workflow, or of a branch, from Conductor and lakeFS.

    When it was polled, by which worker, how far it came, what it decided and published, what
    refused it, and what is left of it. What a service cannot tell is listed at the end. If one did
    not answer, the exit code is 6.
    """
    if workflow is None and repository is None:
        raise reporting.CommandUsageError("perago attempts takes a WORKFLOW_ID, or --repo REPO")
    settings = load_settings()
    age = parse_time_to_live(since or SINCE, "--since")
    question = Question(
        workflow,
        repository,
        branch,
        age if workflow is None or since else None,
        settings.gc_tag_ttl,
    )
    found = ask(lambda services: gather(inspection_tools(services), question), settings)
    lines = _tree(found) if tree else _table(found)
    reporting.say_answer("attempts/1", _document(found), lines, as_json=as_json)
    if not as_json:
        if not found.tasks:
            reporting.note("no attempt is known")
        for text in found.missing:
            reporting.note(f"missing: {text}")
    if found.unanswered:
        raise typer.Exit(reporting.UNANSWERED)


def inspection_tools(services: "Container") -> InspectionTools:
    """What reads both services; without an address of Conductor only lakeFS."""
    workflows = workflows_if_configured(services)
    return InspectionTools(services.lakefs(), services.clock(), workflows)


def _table(found: known.AttemptHistory) -> Iterator[str]:
    for workflow in found.workflows:
        status = workflow.status or "not known to Conductor"
        why = f": {workflow.reason}" if workflow.reason else ""
        yield f"workflow {workflow.workflow_id} {status}{why}"
        for child in workflow.children:
            yield f"  its sub-workflow {child} has attempts of its own: perago attempts {child}"
        tasks = [task for task in found.tasks if task.workflow_id == workflow.workflow_id]
        if not tasks:
            continue
        yield from _columns([_row(task, each) for task in tasks for each in task.attempts])
        yield from _some([each for task in tasks for each in _waits(task)])
        yield from _some([each for task in tasks for each in _reasons(task)])
        yield from _some([each for task in tasks for each in _leftovers(task)])
        for task in tasks:
            state = known.decision_state(task)
            if state in _STATES:
                yield f"  decision of {task.name}: {_STATES[state]}"
    yield from _some([f"left: {_leftover(each)}, of no attempt shown" for each in found.left_over])
    for branch in found.branches:
        yield from _foreign(found, branch)


def _row(task: known.TaskHistory, attempt: known.AttemptEvidence) -> tuple[str, ...]:
    row = attempt.row
    return (
        task.name,
        str(attempt.number),
        _moment(attempt.began),
        (row.snapshot.worker_id if row else None) or "-",
        attempt.status or "-",
        known.how_far(attempt),
        _short(attempt.staged),
        _short(attempt.publications[0].commit if attempt.publications else attempt.output_ref),
    )


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    for row in (HEADINGS, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


_STATES = {
    known.DecisionState.REMOVED: "removed by garbage collection; what it published stays",
    known.DecisionState.RESET: "discarded by perago reset-task",
}


def _some(lines: Sequence[str]) -> Iterator[str]:
    """The first of them, and how many there are besides."""
    yield from lines[:SHOWN_MAX]
    if len(lines) > SHOWN_MAX:
        begins = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        yield f"{begins}... and {len(lines) - SHOWN_MAX} more; --json has all"


def _waits(task: known.TaskHistory) -> Iterator[str]:
    """Until when, and in which domain: a worker without it polls another queue."""
    for attempt in task.attempts:
        if attempt.status is not AttemptStatus.SCHEDULED or attempt.row is None:
            continue
        domain = f" in the domain {attempt.row.domain}" if attempt.row.domain else ""
        until = f" until {_moment(attempt.due)} UTC" if attempt.due else ""
        if domain or until:
            yield f"  waits: {task.name} attempt {attempt.number}{domain}{until}"


def _reasons(task: known.TaskHistory) -> Iterator[str]:
    """Each reason once for all attempts in a row that have it."""
    for reason, same in groupby(task.attempts, key=lambda each: each.reason_with_code):
        numbers = [each.number for each in same]
        which = f"attempt {numbers[0]}"
        if len(numbers) > 1:
            which = f"attempts {numbers[0]} to {numbers[-1]}"
        if reason:
            yield f"  why: {task.name} {which}: {reason}"


def _leftovers(task: known.TaskHistory) -> Iterator[str]:
    for attempt in task.attempts:
        for left in attempt.leftovers:
            yield f"  left: {_leftover(left)}, of {task.name} attempt {attempt.number}"
    for decision in task.decisions:
        yield f"  left: {_leftover(decision)}, of {task.name}"


def _leftover(left: known.LeftTag | known.LeftBranch) -> str:
    if isinstance(left, known.LeftTag):
        kind = "decision" if left.tag.startswith(DECISION_TAG_PREFIX) else "tag"
        return f"{kind} {left.repository}/{left.tag} on {_short(left.commit)}"
    return f"branch {left.repository}/{left.branch} at {_short(left.head)}"


def _foreign(found: known.AttemptHistory, branch: known.BranchHistory) -> Iterator[str]:
    """Commits that are no attempt's, above the oldest one that is shown."""
    foreign = [
        record
        for record, role in found.roles(replace(branch, commits=branch.commits[:-1]))
        if role is known.CommitRole.FOREIGN
    ]
    where = f"{branch.repository}/{branch.branch}"
    yield from _some(
        [
            f"foreign commit {_short(record.commit)} on {where} at {_committed(record)}: "
            f"{record.message}"
            for record in foreign
        ]
    )


def _tree(found: known.AttemptHistory) -> Iterator[str]:
    """Each target with its commits, newest first, and beside each what was staged on it."""
    for branch in found.branches:
        yield f"{branch.repository} {branch.branch}"
        shown = {record.commit for record in branch.commits}
        others = 0
        for record, role in found.roles(branch):
            staged = list(_staged_on(found, record.commit))
            if role is known.CommitRole.OTHER and not staged:
                others += 1
                continue
            if others:
                yield f":  {others} commits of other workflows"
                others = 0
            yield f"{_MARKS[role]}  {_commit_text(record, role)}"
            yield from staged
        if others:
            yield f":  {others} commits of other workflows"
        elsewhere = [
            text
            for ref in sorted(found.input_refs - shown)
            for text in (f"o  {_short(ref)} input", *_staged_on(found, ref))
        ]
        if len(elsewhere) > 1:
            yield ":  inputs that are not on this branch, or older"
            yield from elsewhere


_MARKS = {
    known.CommitRole.PUBLICATION: "*",
    known.CommitRole.INPUT: "o",
    known.CommitRole.OTHER: "-",
    known.CommitRole.FENCE: "-",
    known.CommitRole.FOREIGN: "x",
}


def _commit_text(record: CommitRecord, role: known.CommitRole) -> str:
    begins = f"{_short(record.commit)} {_committed(record)}"
    if role is not known.CommitRole.PUBLICATION:
        return f"{begins} {role}: {record.message}"
    said = record.metadata
    reference = said[commit_metadata.LOGICAL_TASK_KEY].partition("/")[2].rpartition("/")[0]
    staged = (
        f" from {_short(said[commit_metadata.STAGING_COMMIT])}"
        if commit_metadata.STAGING_COMMIT in said
        else ""
    )
    number = commit_metadata.attempt_number(said)
    return f"{begins} publication of {reference} attempt {number}{staged}"


def _staged_on(found: known.AttemptHistory, ref: str) -> Iterator[str]:
    """The private commits whose attempts began on a commit."""
    for task in found.tasks:
        for attempt in task.attempts:
            if attempt.input_ref != ref or not (attempt.staged or any(attempt.leftovers)):
                continue
            who = f"{task.name} attempt {attempt.number}: {known.how_far(attempt)}"
            yield "|\\"
            yield f"| s  {_short(attempt.staged)} {who}"
            for left in attempt.leftovers:
                yield f"|    {_leftover(left)}"


def _short(commit: str | None) -> str:
    return commit[:SHORT] if commit else "-"


def _moment(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else "-"


def _committed(record: CommitRecord) -> str:
    return _moment(datetime.fromtimestamp(record.created_at, UTC))


def _document(found: known.AttemptHistory) -> dict[str, object]:
    return {
        "workflows": [
            {
                "id": each.workflow_id,
                "status": each.status,
                "reason": each.reason,
                "sub_workflows": list(each.children),
            }
            for each in found.workflows
        ],
        "tasks": [_task_document(task) for task in found.tasks],
        "branches": [
            {
                "repository": branch.repository,
                "branch": branch.branch,
                "commits": [
                    {
                        "commit": record.commit,
                        "role": role,
                        "parents": list(record.parents),
                        "created_at": record.created_at,
                        "message": record.message,
                    }
                    for record, role in found.roles(branch)
                ],
            }
            for branch in found.branches
        ],
        "left_over": [_leftover_document(left) for left in found.left_over],
        "missing": list(found.missing),
    }


def _task_document(task: known.TaskHistory) -> dict[str, object]:
    return {
        "workflow": task.workflow_id,
        "reference": task.reference,
        "key": task.key,
        "decision": known.decision_state(task),
        "decisions": [_leftover_document(each) for each in task.decisions],
        "attempts": [_attempt_document(attempt) for attempt in task.attempts],
    }


def _attempt_document(attempt: known.AttemptEvidence) -> dict[str, object]:
    row = attempt.row
    return {
        "task_id": attempt.task_id,
        "retry_count": attempt.retry_count,
        "status": attempt.status,
        "worker": row.snapshot.worker_id if row else None,
        "domain": row.domain if row else None,
        "polls": row.snapshot.poll_count if row else None,
        "scheduled_at": known.moment_of(row.snapshot.scheduled_time).isoformat() if row else None,
        "polled_at": attempt.began.isoformat() if attempt.began else None,
        "executions": attempt.executions,
        "came_to": known.how_far(attempt),
        "code": attempt.code,
        "reason": attempt.reason or None,
        "input": attempt.input_ref,
        "staged": attempt.staged,
        "decided": attempt.decided,
        "code_version": next(
            (each.metadata.get(commit_metadata.CODE_VERSION) for each in attempt.publications), None
        ),
        "publications": [record.commit for record in attempt.publications],
        "output": attempt.output_ref,
        "left": [_leftover_document(left) for left in attempt.leftovers],
    }


def _leftover_document(left: known.LeftTag | known.LeftBranch) -> dict[str, object]:
    if isinstance(left, known.LeftTag):
        return asdict(left)
    return {"repository": left.repository, "branch": left.branch, "commit": left.head}
