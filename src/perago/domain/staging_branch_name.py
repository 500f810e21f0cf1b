"""The name of an attempt's private branch: readable, legal in lakeFS, one for each execution.

The format is the documents'; a long name keeps its beginning and a hash of the whole.
"""

import re

from perago.domain.attempt import AttemptSnapshot, ExecutionId
from perago.domain.logical_execution import short_hash
from perago.domain.references import BranchName

STAGING_BRANCH_PREFIX = "perago-staging-"
NAME_CHARACTERS_MAX = 250

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]+")


def staging_branch_name(attempt: AttemptSnapshot, execution_id: ExecutionId) -> BranchName:
    """Name the staging branch of one execution."""
    name = (
        f"{STAGING_BRANCH_PREFIX}{_segment(attempt.workflow_id)}"
        f"-{_segment(attempt.reference_name)}"
        f"-seq-{attempt.seq}-iteration-{attempt.iteration}"
        f"-task-id-{_segment(attempt.task_id)}"
        f"-retry-{attempt.retry_count}-exec-{_segment(execution_id)}"
    )
    if len(name) <= NAME_CHARACTERS_MAX:
        return BranchName(name)
    digest = short_hash(attempt.workflow_id, attempt.reference_name, name)
    return BranchName(f"{name[: NAME_CHARACTERS_MAX - len(digest) - 1]}-{digest}")


def _segment(text: str) -> str:
    """Replace what a branch name cannot hold; an empty rest is `unknown`."""
    return _ILLEGAL.sub("-", text).strip("-_") or "unknown"
