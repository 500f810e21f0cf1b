"""Whose a staging branch is, read off its name, or off the commit that was made on it.

The name is enough for a branch on which nothing was committed. Asks nobody.
"""

import re
from dataclasses import dataclass

from perago.domain.commit_metadata import LOGICAL_TASK_KEY, STAGING_BRANCH, TASK_ID
from perago.domain.private_names import staging_of
from perago.domain.references import BranchName, CommitRecord

_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Only ids with a fixed form can be told from the reference name between them.
_NAME = re.compile(
    rf"perago-staging-(?P<workflow>{_ID})-.*-seq-\d+-iteration-\d+"
    rf"-task-id-(?P<task>{_ID})-retry-\d+-exec-[A-Za-z0-9]+"
)


@dataclass(frozen=True, slots=True)
class StagingOwner:
    """The attempt that a staging branch belongs to."""

    workflow_id: str
    task_id: str


def owner_by_name(branch: BranchName) -> StagingOwner | None:
    """The owner that the name tells; None where Conductor's ids are no UUIDs."""
    named = _NAME.fullmatch(staging_of(branch))
    return StagingOwner(named["workflow"], named["task"]) if named else None


def is_own_commit(branch: BranchName, head: CommitRecord) -> bool:
    """Whether the head was committed on this branch, and is not just where it began.

    A branch begins at the input of its attempt, which is often another task's publication: that
    commit's metadata says nothing of this branch.
    """
    return head.metadata.get(STAGING_BRANCH) == staging_of(branch)


def owner_by_commit(branch: BranchName, head: CommitRecord) -> StagingOwner | None:
    """The owner that the branch's own commit tells."""
    workflow = head.metadata.get(LOGICAL_TASK_KEY, "").partition("/")[0]
    task = head.metadata.get(TASK_ID, "")
    if workflow and task and is_own_commit(branch, head):
        return StagingOwner(workflow, task)
    return None
