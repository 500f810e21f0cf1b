"""The name of an attempt's private branch: readable, legal in lakeFS, one for each execution.

The format is the documents'. A name that would be too long is cut in the reference name, so that
the workflow, the task and the execution id stay readable: garbage collection asks Conductor for the
first two, and the execution id tells how old a branch is on which nothing was committed yet.
"""

import re

from perago.domain.attempt import AttemptSnapshot, ExecutionId
from perago.domain.logical_execution import short_hash
from perago.domain.references import BranchName

STAGING_BRANCH_PREFIX = "perago-staging-"
NAME_CHARACTERS_MAX = 250
ID_CHARACTERS_MAX = 36
"""Conductor's ids are UUIDs; only where a name is too long is a longer id replaced by its hash."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")


def staging_branch_name(attempt: AttemptSnapshot, execution_id: ExecutionId) -> BranchName:
    """Name the staging branch of one execution."""
    workflow, task, execution = (
        _segment(text) for text in (attempt.workflow_id, attempt.task_id, execution_id)
    )
    reference = _segment(attempt.reference_name)
    name = _written(attempt, workflow, reference, task, execution)
    if len(name) <= NAME_CHARACTERS_MAX:
        return BranchName(name)
    workflow, task, execution = (
        text if len(text) <= ID_CHARACTERS_MAX else short_hash(text)
        for text in (workflow, task, execution)
    )
    room = NAME_CHARACTERS_MAX - len(_written(attempt, workflow, "", task, execution))
    digest = short_hash(attempt.workflow_id, attempt.reference_name, name)
    kept = reference[: max(room - len(digest) - 1, 0)]
    return BranchName(_written(attempt, workflow, f"{kept}-{digest}"[-room:], task, execution))


def is_staging_branch_of(name: str, attempt: AttemptSnapshot) -> bool:
    """Whether a name is that of a staging branch of this attempt's task, by whichever attempt.

    A name of full length may be cut in the reference name; then the workflow has to do.
    """
    workflow, reference = _segment(attempt.workflow_id), _segment(attempt.reference_name)
    if name.startswith(f"{STAGING_BRANCH_PREFIX}{workflow}-{reference}-seq-"):
        return True
    cut = (workflow, short_hash(workflow))
    begins = tuple(f"{STAGING_BRANCH_PREFIX}{each}-" for each in cut)
    return len(name) == NAME_CHARACTERS_MAX and name.startswith(begins)


def _written(
    attempt: AttemptSnapshot, workflow: str, reference: str, task: str, execution: str
) -> str:
    return (
        f"{STAGING_BRANCH_PREFIX}{workflow}-{reference}"
        f"-seq-{attempt.seq}-iteration-{attempt.iteration}"
        f"-task-id-{task}-retry-{attempt.retry_count}-exec-{execution}"
    )


def _segment(text: str) -> str:
    """Replace what a branch name cannot hold; an empty rest is `unknown`."""
    return _ILLEGAL.sub("-", text).strip("-_") or "unknown"
