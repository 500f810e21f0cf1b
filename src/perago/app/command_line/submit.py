"""`perago submit` and `perago head`: start a workflow on the head of a branch, and wait for it.

The input is what tasks expect: `workspace` with the head's commit id, and `params` with the params
of each task under its reference name.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from perago.app.command_line import reporting
from perago.app.command_line.params import check_params, complete_params, merged_params
from perago.app.command_line.services import (
    RepositoryName,
    ask,
    branch_option,
    repository_option,
)
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.attempt_history import AttemptEvidence
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.domain.workflow_explanation import at_and_in
from perago.ports.conductor import WorkflowRecord, Workflows
from perago.ports.errors import MissingError, UnavailableError
from perago.ports.installations import ConductorInstallation
from perago.ports.system import Clock

if TYPE_CHECKING:
    from perago.app.container import Container

LOOK_SECONDS: Final = 1.0  # between two looks: people watch, and a look costs Conductor a read
# A worker that is there polls within a second. Without this line a person whose worker did not
# start would watch a workflow that never ends. The line ends nothing: one that comes while
# a worker still imports its modules does no harm.
UNPOLLED_SECONDS: Final = 15.0


class WorkflowUnknownError(MissingError):
    """No workflow of that name is registered on Conductor."""

    code = "PRG-L012"


def head(
    repository: RepositoryName,
    branch: Annotated[str, typer.Argument(metavar="BRANCH", help="Name of the branch.")],
    *,
    as_json: reporting.JsonOption = False,
) -> None:
    """Print the commit id of the head of a branch, which is the input of a workflow.

    `perago submit` starts a workflow from there by itself.
    """
    commit = ask(lambda services: _head(services, RepositoryId(repository), BranchName(branch)))
    document = {"repository": repository, "branch": branch, "commit": commit}
    reporting.say_answer("head/1", document, [commit], as_json=as_json)


def submit(
    workflow: Annotated[
        str, typer.Argument(metavar="WORKFLOW", help="Name of a registered workflow.")
    ],
    *,
    repository: Annotated[RepositoryId, repository_option("The repository.")],
    branch: Annotated[BranchName, branch_option("The target branch.")],
    params: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARAMS",
            help="JSON, @FILE with JSON, or REFERENCE.FIELD=VALUE; several are merged.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end and show every step.")
    ] = False,
    as_json: reporting.JsonOption = False,
) -> None:
    """Start a workflow on the head of a branch.

    The exit code of `--wait` is 0 when the workflow is COMPLETED, and 1 when it ends otherwise.
    """
    if "/" in workflow:
        # Conductor's web server refuses an address with such a name, before it looks for it.
        raise reporting.CommandUsageError(
            f"expected the name of a workflow, found {workflow!r}: Conductor cannot be asked for a"
            " name with a slash. `perago workflow new MODULE --name NAME --register` registers the"
            " workflow under another one"
        )
    given = merged_params(params or [])
    submitted, record = ask(
        lambda services: _submit(services, workflow, (repository, branch), given, waits=wait)
    )
    document, line = asdict(submitted), submitted.workflow_id
    if record is not None:
        end = {"status": record.status, "output": record.output_data, "reason": record.reason}
        document, line = {**document, **end}, f"{line} {record.status}"
    reporting.say_answer("submit/1", document, [line], as_json=as_json)
    if record is not None and record.status is not WorkflowStatus.COMPLETED:
        reporting.note(f"{workflow}: {record.reason or 'no reason was given'}")
        raise typer.Exit(reporting.FAILED)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A workflow that was started, and what it was started with."""

    workflow: str
    version: int
    workflow_id: str
    input: Mapping[str, object]


async def _head(services: "Container", repository: RepositoryId, branch: BranchName) -> CommitId:
    return (await services.lakefs().branches.head(repository, branch)).commit


async def _submit(
    services: "Container",
    workflow: str,
    address: tuple[RepositoryId, BranchName],
    params: Mapping[str, object],
    *,
    waits: bool,
) -> tuple[Submitted, WorkflowRecord | None]:
    commit = await _head(services, *address)
    repository, branch = address
    workspace = {"repository": repository, "branch": branch, "refType": "commit", "ref": commit}
    conductor = services.conductor()
    submitted = await start_workflow(conductor, workflow, workspace, params)
    reporting.note(f"started {workflow} {submitted.workflow_id} on {branch} at {commit}")
    if not waits:
        return submitted, None
    return submitted, await follow(
        conductor.workflows, submitted.workflow_id, services.clock(), reporting.note
    )


async def start_workflow(
    conductor: ConductorInstallation,
    name: str,
    workspace: Mapping[str, object],
    params: Mapping[str, object],
) -> Submitted:
    """Start the newest version of a workflow; raises when its tasks would not take the params."""
    workflows = conductor.workflows
    definition = await workflows.read_definition(name)
    if definition is None:
        raise WorkflowUnknownError(f"Conductor knows no workflow {name}")
    version = cast("int", definition.get("version", 1))
    given: dict[str, object] = {
        "workspace": workspace,
        "params": complete_params(definition, params),
    }
    await check_params(conductor, definition, params)
    workflow_id = await workflows.start(name, given, version=version)
    return Submitted(name, version, workflow_id, given)


async def follow(
    workflows: Workflows, workflow_id: str, clock: Clock, seen: Callable[[str], None]
) -> WorkflowRecord:
    """Wait until a workflow has ended, and tell of every step that begins or ends meanwhile.

    A Conductor that does not answer is asked again: the workflow goes on without us.
    """
    known: dict[tuple[str, int], str] = {}
    unpolled = Unpolled(clock)
    is_away = False
    while True:
        try:
            record = await workflows.read(workflow_id)
        except UnavailableError as error:
            if not is_away:
                seen(f"waiting for Conductor: {error}")
            is_away = True
        else:
            is_away = False
            if record is None:
                raise WorkflowUnknownError(f"workflow {workflow_id} is gone from Conductor")
            for line in [*_news(record, known, clock.now()), *unpolled.news(record)]:
                seen(line)
            if record.status.is_terminal:
                return record
        await clock.sleep(LOOK_SECONDS)


class Unpolled:
    """Attempts that no worker has polled; each is told of once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._noted: set[str] = set()

    def news(self, record: WorkflowRecord) -> list[str]:
        """Lines for rows that have waited too long; not while Conductor keeps them back."""
        lines: list[str] = []
        for each in record.attempts:
            row = each.snapshot
            if row.status is not AttemptStatus.SCHEDULED or row.poll_count:
                continue
            due = self._clock.monotonic() + each.delay_seconds
            since = self._since.setdefault(row.task_id, due)
            if row.task_id in self._noted or self._clock.monotonic() - since < UNPOLLED_SECONDS:
                continue
            self._noted.add(row.task_id)
            lines.append(
                f"{row.reference_name}: no worker has polled {row.task_type} for"
                f" {UNPOLLED_SECONDS:g} s; `perago start MODULE` with its module starts one,"
                " `perago doctor` says what else can be the cause"
            )
        return lines


def _news(record: WorkflowRecord, known: dict[tuple[str, int], str], now: datetime) -> list[str]:
    lines: list[str] = []
    for each in record.attempts:
        row = each.snapshot
        name, status = (row.reference_name, row.retry_count), str(row.status)
        if known.get(name) == status:
            continue
        known[name] = status
        attempt = AttemptEvidence(row.task_id, row.logical_task_key, row.retry_count, each)
        again = f" (attempt {attempt.number})" if row.retry_count else ""
        line = f"{row.reference_name}{again} {status}"
        if attempt.reason and row.status.is_terminal:
            line += f": {attempt.reason_with_code}"
        if attempt.code and row.status.is_terminal:
            line += f"; `perago explain {attempt.code}` says what to do"
        if attempt.due is not None:
            line += f"; it can begin {at_and_in(attempt.due, now)}"
        lines.append(line)
    return lines
