"""A run: its key, the names made of it, and what `perago.finish` may do with it.

A workflow from `perago.begin` to `perago.finish` is a transaction: its tasks publish on the run
branch, and the target shows all of it or nothing. `decide_finish` is asked anew in each round,
after the target was read. `find_publication_of_run` tells the commit that published a run, so that
no run is published twice.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, TypeAlias

from perago.domain import commit_metadata as metadata
from perago.domain import lakefs
from perago.domain.attempt import AttemptSnapshot
from perago.domain.commit_metadata import PublicationIdentity
from perago.domain.names import RUN_BRANCH_PREFIX, short_hash, workflow_segment
from perago.domain.publication import Adopt, Keep, Refusal

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
    attempt: AttemptSnapshot, chain: str, repository: lakefs.RepositoryId, branch: lakefs.BranchName
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


def _digits_of_target(repository: lakefs.RepositoryId, branch: lakefs.BranchName) -> str:
    return short_hash(repository, branch)[:_HALF_OF_DIGITS]


def workflow_of_run(key: RunKey) -> str:
    """The workflow segment of a key; a workflow id may hold hyphens, the hash does not."""
    return key.rpartition("-")[0]


def run_branch(key: RunKey) -> lakefs.BranchName:
    """The branch to which the tasks of a run publish."""
    return lakefs.BranchName(f"{RUN_BRANCH_PREFIX}{key}")


def base_tag(key: RunKey) -> lakefs.TagName:
    """The tag by which the attempts of `perago.begin` agree on the base."""
    return lakefs.TagName(f"{BASE_TAG_PREFIX}{key}")


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

    repository: lakefs.RepositoryId
    branch: lakefs.BranchName
    base: lakefs.CommitId
    key: RunKey

    @property
    def is_of_its_target(self) -> bool:
        """Whether the run was begun for this target; an input may name another one."""
        return self.key.endswith(_digits_of_target(self.repository, self.branch))

    @property
    def run_branch(self) -> lakefs.BranchName:
        """The branch to which its tasks publish."""
        return run_branch(self.key)


def start_anew(repository: str, branch: str) -> str:
    """The way out; the command shows the commit that the new workflow's input has to name.

    Not that of a run branch: a workflow that started there would publish where no reader looks.
    """
    if key_of_run(branch) is not None:
        return f"start a new workflow; `perago runs {repository}` lists the runs that are left"
    return f"start a new workflow from the current head: `perago head {repository} {branch}`"


class OnMoved(StrEnum):
    """What to do when the target has moved since the run began."""

    REFUSE = "refuse"
    REBASE = "rebase"


class History(StrEnum):
    """Whether the commit on the target has the run's own commits as its second parent."""

    MERGE = "merge"
    SQUASH = "squash"


@dataclass(frozen=True, slots=True)
class FinishFacts:
    """Facts of one moment: the run's branch was read before the target.

    `run_head` is what the last task put out, `branch_head` the head of the run branch, None when
    the branch is gone. `touched` says what keeps the run from being rebased. It is asked once the
    table has said RebaseRun, because the answer takes a request for each 1,000 changes.
    """

    run: Run
    run_head: lakefs.CommitId
    branch_head: lakefs.CommitId | None
    decided: bool
    walk: lakefs.FirstParentWalk
    on_moved: OnMoved = OnMoved.REFUSE
    touched: str | None = None


@dataclass(frozen=True, slots=True)
class MergeRun:
    """Merge the run head into the target, which is at the base: lakeFS takes its tree exactly."""


@dataclass(frozen=True, slots=True)
class RebaseRun:
    """Bring the run onto this head, prove what came out, and merge that."""

    head: lakefs.CommitId


FinishDecision: TypeAlias = Keep | Adopt | MergeRun | RebaseRun | Refusal


def decide_finish(facts: FinishFacts) -> FinishDecision:
    """Choose what may be done now.

    run branch:                     at the run head      elsewhere       gone
    the target has the run          Adopt                Adopt           Adopt
    the run head is the base        Keep                 refused N001    Keep
    target at the base              MergeRun             refused N001 *  refused N003
    target moved, refuse            refused N004         refused N001 *  refused N003
    target moved, rebase            RebaseRun            refused N001 *  refused N003
    the same, a path touched twice  refused N005         refused N001 *  refused N003
    the base left the target        refused F004, F005   refused N001 *  refused N003

    * Not after the decision: it was made when the branch was at the run head, and stays.
    A branch is removed after its run was published, and by `perago abandon`. The target is read
    after the branch; so where the branch is gone and the run not there, it was given up.
    """
    run = facts.run
    published = find_publication_of_run(run, facts.run_head, facts.walk)
    if published is not None:
        return Adopt(published)
    if facts.branch_head not in {facts.run_head, None} and not facts.decided:
        branch = run.run_branch
        look = f"`lakectl log lakefs://{run.repository}/{branch}` shows who else wrote to it"
        text = f"the workspace is at {facts.run_head}, and the run branch {branch} at"
        text = f"{text} {facts.branch_head}: hand on the output of the last task, or {look}"
        return Refusal("PRG-N001", text)
    if facts.run_head == run.base:
        return Keep(run.base)  # no task of the run has published
    if facts.branch_head is None:
        text = f"the run branch {run.run_branch} is gone and the run is not on {run.branch}"
        anew = start_anew(run.repository, run.branch)
        return Refusal("PRG-N003", f"{text}: it was given up; {anew}")
    return _decide_by_target(facts)


def _decide_by_target(facts: FinishFacts) -> FinishDecision:
    """The lower half of the table."""
    run, walk, head = facts.run, facts.walk, facts.walk.head.commit
    anew = start_anew(run.repository, run.branch)
    if not walk.reached and walk.truncated:
        text = f"{run.branch} advanced beyond supported publish range, to {head}"
        return Refusal("PRG-F004", f"{text}; {anew}")
    if not walk.reached:
        text = f"{run.branch} is at {head} and no longer contains base {run.base} of the run"
        return Refusal("PRG-F005", f"{text}; {anew}")
    if head == run.base:
        return MergeRun()
    writer = metadata.written_by(walk.head, "")
    moved = f"{run.branch} moved from base {run.base} to {head}; {writer}"
    if facts.on_moved is OnMoved.REFUSE:
        return Refusal("PRG-N004", f'{moved}; {anew}, or give finish on_moved="rebase"')
    if facts.touched is not None:
        text = f"{moved}, and the run cannot be rebased: {facts.touched}"
        return Refusal("PRG-N005", f"{text}; {anew}")
    return RebaseRun(head)


def find_publication_of_run(
    run: Run, run_head: lakefs.CommitId, walk: lakefs.FirstParentWalk
) -> lakefs.CommitRecord | None:
    """Find the commit on the target that published this head of the run.

    By the run's key and not by that of the execution: a rerun of `perago.finish` must not publish
    the same run a second time. The first parent has to agree, because a cherry-pick copies metadata
    and stands elsewhere; the second one is there only where the history was merged.
    """
    expected = {
        metadata.RUN: run.key,
        metadata.STAGING_COMMIT: run_head,
        metadata.TARGET_BRANCH: run.branch,
    }
    for record in walk.above if walk.reached else ():
        on_its_head = record.parents[:1] == (record.metadata.get(metadata.EXPECTED_HEAD),)
        if on_its_head and expected.items() <= record.metadata.items():
            return record
    return None


def run_metadata(
    identity: PublicationIdentity,
    run: Run,
    *,
    run_head: lakefs.CommitId,
    expected_head: lakefs.CommitId,
    tasks: int,
) -> Mapping[str, str]:
    """Metadata of the commit that publishes a run; `tasks` is how many tasks published on it."""
    staged = lakefs.StagedReference(run.repository, run.run_branch, run_head)
    return {
        **metadata.confirm_metadata(identity, staged=staged, expected_head=expected_head),
        metadata.RUN: run.key,
        metadata.RUN_TASKS: str(tasks),
        metadata.WORKFLOW_ID: identity.attempt.workflow_id,
    }
