"""What a run or a staged commit would change on its target: the work of `perago diff`.

The changes of a run stand on its run branch until it is finished, those of one attempt on its
staging branch until they are published. They are compared with the commit that the run or the
attempt started from. Nothing is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from perago.app.runs.finish import FINISH_TASK
from perago.app.runs.held_runs import find_run
from perago.app.runs.models import FinishResult
from perago.domain.attempt import AttemptStatus
from perago.domain.commit_metadata import INPUT_REF
from perago.domain.logical_execution import (
    STAGING_BRANCH_PREFIX,
    BranchName,
    CommitId,
    RepositoryId,
)
from perago.domain.names import RUN_BRANCH_PREFIX, is_execution_id, is_private_branch
from perago.domain.run import base_tag, key_of_run, run_branch, workflow_of_run
from perago.ports.asking import pages
from perago.ports.conductor import Workflows
from perago.ports.errors import BranchMissingError
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import BranchPage


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
    key = key_of_run(name) or key_of_run(f"{RUN_BRANCH_PREFIX}{name}")
    workflow = await workflows.read(name if key is None else workflow_of_run(key))
    rows = () if workflow is None else workflow.attempts
    finished = [
        row.output_data
        for row in rows
        if row.snapshot.task_type == FINISH_TASK.name
        and row.snapshot.status is AttemptStatus.COMPLETED
        and (key is None or key in str(row.input_data.get("params")))
    ]
    if not finished:
        return None
    target = FinishResult.model_validate(finished[-1]["result"]).workspace
    repository, head = RepositoryId(target.repository), CommitId(target.ref)
    record = await lakefs.commits.read(repository, head)
    return HeldChanges(
        repository, BranchName(target.branch), record.parents[0], head, is_published=True
    )


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
    if is_private_branch(name):
        return BranchName(name)
    if not is_execution_id(name):
        return None

    async def ask(after: str) -> BranchPage:
        return await lakefs.branches.list_page(
            repository, STAGING_BRANCH_PREFIX, after, show_hidden=True
        )

    async for page in pages(ask):
        for branch in page.names:
            if branch.endswith(name):
                return branch
    return None
