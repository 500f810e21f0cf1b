"""`perago reset-task`: let a task be computed anew, whatever its attempts decided or published.

Only while the workflow is not running: a decision under a running attempt is its safety.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from perago.app.attempt.choose_target import list_tags, put_mark, seal_chain
from perago.app.attempt.resume import PublishedDecision, find_publication_of
from perago.domain import logical_execution as keys
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus, as_mapping
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, STAGING_BRANCH
from perago.domain.errors import PeragoError
from perago.domain.lakefs import BranchName, CommitRecord, RepositoryId, TagName
from perago.domain.names import is_staging_branch_of
from perago.ports.conductor import WorkflowRecord, Workflows
from perago.ports.errors import MissingError
from perago.ports.installations import LakeFSInstallation
from perago.ports.system import Clock


class WorkflowRunsError(PeragoError, RuntimeError):
    """The workflow is running; its decisions stay."""

    code = "PRG-F009"


@dataclass(frozen=True, slots=True)
class ResetTools:
    """The services that a reset uses."""

    lakefs: LakeFSInstallation
    workflows: Workflows
    clock: Clock


@dataclass(frozen=True, slots=True)
class Reset:
    """The marks that were left, what was removed, and what stays published."""

    marks: list[TagName] = field(default_factory=list[TagName])
    decisions: list[TagName] = field(default_factory=list[TagName])
    branches: list[BranchName] = field(default_factory=list[BranchName])
    published: list[PublishedDecision] = field(default_factory=list[PublishedDecision])


async def reset_task(
    tools: ResetTools, repository: RepositoryId, workflow_id: str, reference_name: str
) -> Reset:
    """Begin the retries of a task anew, then remove what they had decided.

    The marks come first, because they alone give the reset its effect: they lead all later
    retries to another chain, so that neither a decision nor a publication of before is theirs.
    A workflow that Conductor knows no more runs no retry, so it gets no marks.
    """
    workflow = await _read_ended(tools.workflows, workflow_id)
    attempts = [
        each
        for each in (workflow.attempts if workflow else ())
        if each.snapshot.reference_name == reference_name
    ]
    reset, chains = Reset(), set[str]()
    iterations = {each.snapshot.iteration for each in attempts}
    for iteration in sorted(iterations):
        retries = [each for each in attempts if each.snapshot.iteration == iteration]
        record = await _an_input(tools.lakefs, repository, retries)
        if record is not None:
            chains.add(await _reset_chain(tools, repository, retries, record, reset))
    # Once more: an attempt that was started beside the marks may have its key from before them.
    await _read_ended(tools.workflows, workflow_id)
    await _remove_decisions(tools, repository, _task(workflow_id, reference_name), chains, reset)
    return reset


async def _read_ended(workflows: Workflows, workflow_id: str) -> WorkflowRecord | None:
    workflow = await workflows.read(workflow_id)
    if workflow is not None and not workflow.status.is_terminal:
        text = f"workflow {workflow_id} is {workflow.status}; terminate it or let it end, then"
        raise WorkflowRunsError(f"{text} run `perago reset-task` again")
    return workflow


def _task(workflow_id: str, reference_name: str) -> AttemptSnapshot:
    """A row that stands for any of the task: names and keys are made from its first two parts."""
    return AttemptSnapshot(workflow_id, "", reference_name, "", AttemptStatus.SCHEDULED)


async def _an_input(
    lakefs: LakeFSInstallation, repository: RepositoryId, retries: Sequence[AttemptRecord]
) -> CommitRecord | None:
    """The newest input in this repository that is there; without one nothing was decided."""
    for attempt in reversed(retries):
        given = as_mapping(attempt.input_data.get("workspace"))
        if given.get("repository") != repository:
            continue
        try:
            return await lakefs.commits.read(repository, str(given.get("ref")))
        except MissingError:  # an attempt with this input was refused
            continue
    return None


async def _reset_chain(
    tools: ResetTools,
    repository: RepositoryId,
    retries: Sequence[AttemptRecord],
    record: CommitRecord,
    reset: Reset,
) -> str:
    """Mark the chain of the newest row as reset.

    Sealing all its rows first fixes which chain that is. The older rows need nothing: they come
    back by a rerun only, and that begins a chain of its own.
    """
    rows = [each.snapshot for each in retries]
    newest = max(rows, key=lambda row: row.seq)
    rows_of_chain = keys.retry_chain(newest, rows)
    chain = await seal_chain(tools.lakefs.tags, tools.clock, repository, rows_of_chain, record)
    milliseconds = int(tools.clock.now().timestamp() * 1000)
    mark = keys.attempt_mark_tag(newest, keys.AttemptMark(chain, milliseconds))
    await put_mark(tools.lakefs.tags, tools.clock, repository, mark, record.commit)
    reset.marks.append(mark)
    return chain


async def _remove_decisions(
    tools: ResetTools,
    repository: RepositoryId,
    task: AttemptSnapshot,
    chains: AbstractSet[str],
    reset: Reset,
) -> None:
    """Remove decisions that are the task's by their name or by what their commit says.

    Either may be missing: a tag that was moved by hand stands on a commit that says nothing, and
    the chain of a row that a rerun has removed is not known any more.
    """
    for tag in await list_tags(
        tools.lakefs.tags, repository, keys.decision_tags_of_workflow(task.workflow_id)
    ):
        metadata = (await tools.lakefs.commits.read(repository, tag.commit)).metadata
        says = metadata.get(LOGICAL_TASK_KEY, "").rpartition("/")[0]
        owned = says == f"{task.workflow_id}/{task.reference_name}"
        if not owned and keys.chain_of_key(keys.decision_key(tag.name)) not in chains:
            continue
        published = await find_publication_of(tools.lakefs.commits, repository, tag)
        if isinstance(published, PublishedDecision):
            reset.published.append(published)
        await tools.lakefs.tags.delete(repository, tag.name)
        reset.decisions.append(tag.name)
        branch = BranchName(metadata.get(STAGING_BRANCH, ""))
        if is_staging_branch_of(branch, task):  # the metadata may be forged
            await tools.lakefs.branches.delete(repository, branch)
            reset.branches.append(branch)
