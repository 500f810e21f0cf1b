"""Runs that have begun and are not published: which there are, removing one, and their changes.

lakeFS has the run branch and the tag on its base, Conductor has the workflow. Each tells as much
as it knows: a run whose workflow Conductor has forgotten is still a run.

`find_held` and `find_published` find what `perago diff` compares: the changes of a run stand on its
run branch until it is finished, those of one attempt on its staging branch until they are
published. They are compared with the commit that the run or the attempt started from.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from perago.app.runs.begin import run_begun_by
from perago.app.runs.finish import FINISH_TASK, FinishResult
from perago.domain import names
from perago.domain.attempt import AttemptStatus, WorkflowStatus, as_mapping
from perago.domain.commit_metadata import INPUT_REF
from perago.domain.errors import PeragoError, SeveralRunsError
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.domain.run import RunKey, base_tag, key_of_run, run_branch, workflow_of_run
from perago.domain.settled import FIRST_PARENT_COMMITS_MAX
from perago.ports.asking import pages
from perago.ports.conductor import WorkflowRecord, Workflows
from perago.ports.errors import BranchMissingError
from perago.ports.installations import LakeFSInstallation


class RunIsOpenError(PeragoError, RuntimeError):
    """The workflow of the run may still go on."""

    code = "PRG-N008"


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run that is not published; a fact that no service could tell is None.

    `publications` counts the commits of its tasks. `target` is the branch that finish would move.
    """

    repository: RepositoryId
    key: RunKey
    workflow_id: str
    head: CommitId
    base: CommitId | None = None
    publications: int | None = None
    status: WorkflowStatus | None = None
    target: str | None = None

    @property
    def branch(self) -> BranchName:
        """Its run branch."""
        return run_branch(self.key)


async def held_runs(
    lakefs: LakeFSInstallation, repository: RepositoryId
) -> AsyncGenerator[HeldRun]:
    """Every run of a repository, in order of their workflows, as far as lakeFS knows it."""
    listing = partial(
        lakefs.branches.list_page, repository, names.RUN_BRANCH_PREFIX, show_hidden=True
    )
    async for page in pages(listing):
        for name, head in page.items:
            key = key_of_run(name)
            if key is not None:  # another tool may use the prefix for branches of its own
                yield await _read_run(lakefs, repository, key, head)


async def _read_run(
    lakefs: LakeFSInstallation, repository: RepositoryId, key: RunKey, head: CommitId
) -> HeldRun:
    base = await lakefs.tags.read(repository, base_tag(key))
    publications = None
    if base is not None:
        walk = await lakefs.commits.first_parents(
            repository, head, base, commits_max=FIRST_PARENT_COMMITS_MAX
        )
        publications = len(walk.above) if walk.reached else None
    return HeldRun(repository, key, workflow_of_run(key), head, base, publications)


async def with_workflow(workflows: Workflows, run: HeldRun) -> HeldRun:
    """The run with what Conductor knows of it."""
    workflow = await workflows.read(run.workflow_id)
    if workflow is None:
        return run
    return replace(run, status=workflow.status, target=_target_of(workflow, run.key))


def _target_of(workflow: WorkflowRecord, key: RunKey) -> str | None:
    """The target branch, as the task that began the run put it out."""
    begun = filter(None, map(run_begun_by, workflow.attempts))
    return next((run.branch for run in begun if run.key == key), None)


async def find_run(
    lakefs: LakeFSInstallation, name: str, repositories: Sequence[RepositoryId]
) -> tuple[RepositoryId, RunKey, CommitId] | None:
    """Find a run and its head by its key, by its branch, or by the only run of a workflow.

    Raises SeveralRunsError for a workflow that has more: one of them might be the wrong one.
    """
    key = key_of_run(name) or key_of_run(f"{names.RUN_BRANCH_PREFIX}{name}")
    if key is not None:
        for repository in repositories:
            with suppress(BranchMissingError):
                head = await lakefs.branches.head(repository, run_branch(key))
                return repository, key, head.commit
        return None
    found = [
        (repository, each, head)
        for repository in repositories
        for each, head in await _runs_of_workflow(lakefs, repository, names.workflow_segment(name))
    ]
    if len(found) > 1:
        named = ", ".join(f"{key} in {repository}" for repository, key, _ in found)
        raise SeveralRunsError(f"expected one run of {name}, found {named}; give the key of one")
    return found[0] if found else None


async def _runs_of_workflow(
    lakefs: LakeFSInstallation, repository: RepositoryId, workflow: str
) -> list[tuple[RunKey, CommitId]]:
    prefix = f"{names.RUN_BRANCH_PREFIX}{workflow}-"
    page = await lakefs.branches.list_page(repository, prefix, show_hidden=True)
    return [
        (key, head)
        for branch, head in page.items
        if (key := key_of_run(branch)) is not None and workflow_of_run(key) == workflow
    ]


async def abandon_run(
    lakefs: LakeFSInstallation,
    workflows: Workflows | None,
    repository: RepositoryId,
    key: RunKey,
    *,
    force: bool = False,
) -> list[str]:
    """Remove the branch and the base tag of a run whose workflow has ended; what was removed.

    With `force` Conductor need not know the workflow: it removes old ones, but an operator may as
    well have named another Conductor, which knows none.
    The tag goes last, as in garbage collection: a tag without a branch shows
    that a removal was interrupted, and a branch without a tag could not be compared with its base.
    """
    workflow_id = workflow_of_run(key)
    workflow = None if workflows is None else await workflows.read(workflow_id)
    if workflow is not None and not workflow.status.is_terminal:
        text = f"run {key} belongs to workflow {workflow_id}, which is {workflow.status}"
        raise RunIsOpenError(f"{text}; terminate it, then run `perago abandon {key}` again")
    if workflow is None and not force:
        text = f"Conductor does not know workflow {workflow_id} of run {key}"
        raise RunIsOpenError(f"{text}; if that is right, run `perago abandon {key} --force`")
    branch, tag = run_branch(key), base_tag(key)
    await lakefs.branches.delete(repository, branch)
    await lakefs.tags.delete(repository, tag)
    return [branch, tag]


@dataclass(frozen=True, slots=True)
class HeldChanges:
    """A private branch with changes: its head, and the commit that they are compared with."""

    repository: RepositoryId
    branch: BranchName
    base: CommitId
    head: CommitId
    is_published: bool = False
    """Whether it is what the branch of a target has of a run that finish has published."""


async def find_published(
    lakefs: LakeFSInstallation, workflows: Workflows, name: str
) -> HeldChanges | None:
    """Find the commit that published a run, by its key, its branch or its workflow.

    Conductor tells it, because the run branch is gone and lakeFS would have to be searched.
    """
    key = key_of_run(name) or key_of_run(f"{names.RUN_BRANCH_PREFIX}{name}")
    workflow = await workflows.read(name if key is None else workflow_of_run(key))
    rows = () if workflow is None else workflow.attempts
    finished = [
        (as_mapping(as_mapping(row.input_data.get("params")).get("run")), row.output_data)
        for row in rows
        if row.snapshot.task_type == FINISH_TASK.name
        and row.snapshot.status is AttemptStatus.COMPLETED
    ]
    finished = [each for each in finished if key is None or each[0].get("key") == key]
    if not finished:
        return None
    run, output = finished[-1]
    target = FinishResult.model_validate(output["result"]).workspace.as_value()
    repository, branch, head = target.repository, target.branch, target.ref
    if run.get("base") == head:  # no task of it has published, so another writer made the commit
        return HeldChanges(repository, branch, head, head)
    record = await lakefs.commits.read(repository, head)
    return HeldChanges(repository, branch, record.parents[0], head, is_published=True)


async def find_held(
    lakefs: LakeFSInstallation, name: str, repositories: Sequence[RepositoryId]
) -> HeldChanges | None:
    """Find the private branch that `name` means.

    It is the name of a branch, the key of a run, the workflow of the only run it has, or the id of
    an execution.
    """
    run = await find_run(lakefs, name, repositories)
    if run is not None:
        repository, key, head_of_run = run
        base_of_run = await lakefs.tags.read(repository, base_tag(key))
        # gc or `perago abandon` is removing the run: the tag goes last.
        if base_of_run is None:
            return None
        return HeldChanges(repository, run_branch(key), base_of_run, head_of_run)
    for repository in repositories:
        branch = await _branch(lakefs, repository, name)
        if branch is None:
            continue
        try:
            head = await lakefs.branches.head(repository, branch)
        except BranchMissingError:  # of another repository, or removed since it was listed
            continue
        # A staged commit says what it was made from. Before it is made the branch has no changes.
        base = CommitId(head.metadata.get(INPUT_REF, head.commit))
        return HeldChanges(repository, branch, base, head.commit)
    return None


async def _branch(
    lakefs: LakeFSInstallation, repository: RepositoryId, name: str
) -> BranchName | None:
    if names.is_private_branch(name):
        return BranchName(name)
    if not names.is_execution_id(name):
        return None
    staging = partial(lakefs.branches.list_page, repository, names.STAGING_BRANCH_PREFIX)
    async for page in pages(partial(staging, show_hidden=True)):
        for branch, _ in page.items:
            if branch.endswith(name):
                return branch
    return None
