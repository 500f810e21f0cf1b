"""A run: its key, the names made of it, and what `perago.begin` hands on to `perago.finish`.

A workflow between these two tasks is a transaction: its tasks publish on the run branch, and the
target shows all of it or nothing.
"""

import re
from dataclasses import dataclass
from typing import NewType

from perago.domain.attempt import AttemptSnapshot
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    RepositoryId,
    TagName,
    short_hash,
    workflow_segment,
)
from perago.domain.names import RUN_BRANCH_PREFIX

RunKey = NewType("RunKey", str)

# lakeFS keeps branches and tags in one name space: a tag that is named like the run branch would
# refuse the branch. Garbage collection finds both by their prefixes, and none may change.
BASE_TAG_PREFIX = "perago-base-"
KEY_PATTERN = r"^[A-Za-z0-9_-]{1,64}-[0-9a-f]{32}$"
_KEY = re.compile(KEY_PATTERN, re.ASCII)
# The second half of the digits is the target's: by it finish refuses an input that names another
# one. The first half tells the runs of one workflow apart, of which there are few.
_HALF_OF_DIGITS = 16


def run_key(
    attempt: AttemptSnapshot, chain: str, repository: RepositoryId, branch: BranchName
) -> RunKey:
    """The key of the run that an attempt of `perago.begin` begins.

    `chain` is the hash of its retries, so a retry and a redelivery begin the same run, and a rerun
    another one. The target is in it because expressions of the input may resolve to another one in
    a retry, and a base of one branch is none of another. The base is not: the first attempt decides
    on it. The workflow stands in the clear, as in a decision, for garbage collection.
    """
    digits = short_hash(chain, repository, branch)[:_HALF_OF_DIGITS]
    digits += _digits_of_target(repository, branch)
    return RunKey(f"{workflow_segment(attempt.workflow_id)}-{digits}")


def _digits_of_target(repository: RepositoryId, branch: BranchName) -> str:
    return short_hash(repository, branch)[:_HALF_OF_DIGITS]


def workflow_of_run(key: RunKey) -> str:
    """The workflow segment of a key; a workflow id may hold hyphens, the hash does not."""
    return key.rpartition("-")[0]


def run_branch(key: RunKey) -> BranchName:
    """The branch to which the tasks of a run publish."""
    return BranchName(f"{RUN_BRANCH_PREFIX}{key}")


def base_tag(key: RunKey) -> TagName:
    """The tag by which the attempts of `perago.begin` agree on the base."""
    return TagName(f"{BASE_TAG_PREFIX}{key}")


def key_of_run(name: str) -> RunKey | None:
    """The key in the name of a run branch or of a base tag; None for a name that is neither."""
    for prefix in (RUN_BRANCH_PREFIX, BASE_TAG_PREFIX):
        key = name.removeprefix(prefix)
        if name.startswith(prefix) and _KEY.fullmatch(key):
            return RunKey(key)
    return None


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has begun: the target, and the commit of the target where it started."""

    repository: RepositoryId
    branch: BranchName
    base: CommitId
    key: RunKey

    @property
    def is_of_its_target(self) -> bool:
        """Whether the run was begun for this target; an input may name another one."""
        return self.key.endswith(_digits_of_target(self.repository, self.branch))

    @property
    def run_branch(self) -> BranchName:
        """The branch to which its tasks publish."""
        return run_branch(self.key)
