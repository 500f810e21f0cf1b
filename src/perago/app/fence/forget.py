"""`perago forget`: remove the decisions and marks of a task, so that it is computed anew.

Only while the workflow is not running: a decision under a running attempt is its safety.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from perago.domain.commit_metadata import LOGICAL_TASK_KEY, STAGING_BRANCH
from perago.domain.errors import PeragoError
from perago.domain.logical_execution import DECISION_TAG_PREFIX, attempt_marks_of
from perago.domain.private_names import is_private_branch
from perago.domain.references import BranchName, RepositoryId, TagName
from perago.ports.branches import Branches
from perago.ports.commits import Commits
from perago.ports.tags import TagRecord, Tags
from perago.ports.task_queue import TaskQueue

PAGES_MAX = 1000


class WorkflowRunsError(PeragoError, RuntimeError):
    """The workflow is running; its decisions stay."""

    code = "PRG-F009"


@dataclass(frozen=True, slots=True)
class ForgetTools:
    """The ports that forgetting uses."""

    branches: Branches
    commits: Commits
    tags: Tags
    queue: TaskQueue


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Names that were removed."""

    decisions: tuple[TagName, ...]
    marks: tuple[TagName, ...]
    branches: tuple[BranchName, ...]


async def forget(
    tools: ForgetTools, repository: RepositoryId, workflow_id: str, reference_name: str
) -> Forgotten:
    """Remove decisions first, then marks: a mark without a decision is harmless, not reversed."""
    workflow = await tools.queue.read_workflow(workflow_id)
    if workflow is not None and not workflow.status.is_terminal:
        text = f"workflow {workflow_id} is {workflow.status}; terminate it or let it end first"
        raise WorkflowRunsError(text)
    rows = workflow.tasks if workflow else ()
    iterations = {0, *(row.iteration for row in rows if row.reference_name == reference_name)}
    decisions: list[TagName] = []
    branches: list[BranchName] = []
    for tag in await _all_tags(tools, repository, DECISION_TAG_PREFIX):
        record = await tools.commits.read(repository, tag.commit)
        owner = record.metadata.get(LOGICAL_TASK_KEY, "")
        task, _, iteration = owner.rpartition("/")
        if task != f"{workflow_id}/{reference_name}":
            continue
        iterations.add(int(iteration))
        await tools.tags.delete(repository, tag.name)
        decisions.append(tag.name)
        branch = BranchName(record.metadata.get(STAGING_BRANCH, ""))
        if is_private_branch(branch):  # anybody may have written what the metadata says
            await tools.branches.delete(repository, branch)
            branches.append(branch)
    prefixes = [
        attempt_marks_of(workflow_id, reference_name, iteration) for iteration in iterations
    ]
    marks = await _delete_marks(tools, repository, prefixes)
    return Forgotten(tuple(decisions), marks, tuple(branches))


async def _delete_marks(
    tools: ForgetTools, repository: RepositoryId, prefixes: Sequence[str]
) -> tuple[TagName, ...]:
    removed: list[TagName] = []
    for prefix in sorted(prefixes):
        for tag in await _all_tags(tools, repository, prefix):
            await tools.tags.delete(repository, tag.name)
            removed.append(tag.name)
    return tuple(removed)


async def _all_tags(
    tools: ForgetTools, repository: RepositoryId, prefix: str
) -> tuple[TagRecord, ...]:
    found: list[TagRecord] = []
    after = ""
    for _ in range(PAGES_MAX):
        page = await tools.tags.list_page(repository, prefix, after)
        found.extend(page.tags)
        if not page.more:
            break
        after = page.tags[-1].name
    return tuple(found)
