"""Names of the branches that Perago makes, and how the names of its tags begin.

Decision tags and attempt marks are made in `logical_execution`, runs in `run`. A name here carries
the execution id of its maker, because only an execution id in a name tells the age of a branch:
garbage collection has to know it also of one on which nothing was committed yet.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from perago.domain.attempt import AttemptSnapshot, ExecutionId
from perago.domain.lakefs import BranchName, CommitId, TagName

# Prefixes are how garbage collection finds what is Perago's, also of older releases: none may
# change.
CANARY_BRANCH_PREFIX = "perago-canary-"
_PROTECTED_CANARY_PREFIX = f"{CANARY_BRANCH_PREFIX}protected-"
PROTECTED_CANARIES = f"{_PROTECTED_CANARY_PREFIX}*"  # as a protection rule
RELOCATED_TAG_PREFIX = "perago-relocated-"
DECISION_TAG_PREFIX = "perago-settled-"
ATTEMPT_MARK_PREFIX = "perago-attempt-"

STAGING_BRANCH_PREFIX = "perago-staging-"
SCRATCH_BRANCH_PREFIX = "perago-scratch-"
RUN_BRANCH_PREFIX = "perago-run-"
PRIVATE_BRANCH_PREFIXES = (
    STAGING_BRANCH_PREFIX,
    SCRATCH_BRANCH_PREFIX,
    RUN_BRANCH_PREFIX,
    CANARY_BRANCH_PREFIX,
)

# Ids that may stand in a tag as they are; Conductor's own are UUIDs. Any other id is hashed,
# because a tag may hold no `/`, and a long id would leave no room for the key.
_PLAIN_WORKFLOW_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
# What version 7 of a UUID leaves beside 48 bits of time: 12 and 62, of which two are given up so
# that the digit with the variant is always 8.
CHANCE_BITS = 72
_EXECUTION_ID = re.compile(
    r"(?<![0-9A-Za-z])[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}(?![0-9A-Za-z])"
)
# The beginning of a commit id, 12 digits, as `scratch_branch` writes it.
_SCRATCH = re.compile(r"(?P<staging>.+)-onto-[0-9a-f]{12}")


def short_hash(*parts: str) -> str:
    """32 hexadecimal digits; the parts are length-prefixed, so that they cannot run together."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return sha256(text.encode()).hexdigest()[:32]


def workflow_segment(workflow_id: str) -> str:
    """How a workflow stands in the names of its decisions and marks."""
    return workflow_id if _PLAIN_WORKFLOW_ID.fullmatch(workflow_id) else short_hash(workflow_id)


def execution_id_at(milliseconds: int, chance: int) -> ExecutionId:
    """A UUID of version 7 in 32 hexadecimal digits; `chance` has `CHANCE_BITS` random bits."""
    digits = f"{chance:018x}"
    return ExecutionId(f"{milliseconds:012x}7{digits[:3]}8{digits[3:]}")


def execution_time(name: str) -> datetime | None:
    """When the execution began whose id stands in a name, or None where no id tells it.

    The last one counts: a reference name before it may look like an id. Ids of releases before
    0.7.0 are random and tell nothing.
    """
    found = _EXECUTION_ID.findall(name)
    if not found:
        return None
    return datetime.fromtimestamp(int(found[-1][:12], 16) / 1000, UTC)


def is_execution_id(text: str) -> bool:
    """Whether a text is an execution id and nothing else."""
    return _EXECUTION_ID.fullmatch(text) is not None


def is_private_branch(name: str) -> bool:
    """Whether Perago may delete a branch of this name, wherever it has read the name.

    Names come from commit metadata too, which every user who may commit can write.
    """
    return name.startswith(PRIVATE_BRANCH_PREFIXES)


def canary_branches(
    execution_id: ExecutionId, *, protected: bool = False
) -> tuple[BranchName, BranchName]:
    """Target and source of one check of the fence; a protection rule covers the target alone."""
    name = f"{CANARY_BRANCH_PREFIX}{execution_id}"
    target = f"{_PROTECTED_CANARY_PREFIX}{execution_id}" if protected else f"{name}-target"
    return BranchName(target), BranchName(f"{name}-source")


def fence_branch(execution_id: ExecutionId) -> BranchName:
    """The side branch on which a fence is installed or removed."""
    return BranchName(f"{CANARY_BRANCH_PREFIX}fence-{execution_id}")


def relocated_tag(abandoned: CommitId, execution_id: ExecutionId) -> TagName:
    """The tag that keeps a head which a relocation leaves behind."""
    return TagName(f"{RELOCATED_TAG_PREFIX}{abandoned[:12]}-{execution_id}")


def scratch_branch(staging: BranchName, base: CommitId) -> BranchName:
    """The branch on which a publication onto a moved head is tried out first."""
    return BranchName(f"{staging}-onto-{base[:12]}")


def staging_of(branch: BranchName) -> BranchName:
    """The staging branch itself, for one of its scratch branches."""
    scratch = _SCRATCH.fullmatch(branch)
    return BranchName(scratch["staging"]) if scratch else branch


# Three UUIDs and the numbers take 160; the rest is for the reference name. Only that is cut,
# because garbage collection reads owner and age from the others. A scratch branch appends 18 more,
# and lakeFS 1.86 has taken such a name of 268. A lower limit would cut names that people read.
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


def staging_branches_of_workflow(workflow_id: str) -> str:
    """Prefix of the staging branches of a workflow, and of others whose ids begin with its id."""
    return f"{STAGING_BRANCH_PREFIX}{_segment(workflow_id)}-"


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


_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Ids of 36 characters only: a reference name may hold anything, also `-seq-` and dashes, so ids of
# any other form could not be cut out of the name with certainty. Then the commit is read.
_STAGING = re.compile(
    rf"perago-staging-(?P<workflow>{_ID})-(?P<reference>.*)-seq-\d+-iteration-(?P<iteration>\d+)"
    rf"-task-id-(?P<task>{_ID})-retry-(?P<retry>\d+)-exec-(?P<execution>[A-Za-z0-9]+)"
)


@dataclass(frozen=True, slots=True)
class StagingOwner:
    """The attempt that a staging branch belongs to; the last four only where its name tells."""

    workflow_id: str
    task_id: str
    reference_name: str = ""
    iteration: int = 0
    retry_count: int = 0
    execution_id: str = ""


def owner_by_name(branch: BranchName) -> StagingOwner | None:
    """The owner that the name tells; None where Conductor's ids are no UUIDs."""
    named = _STAGING.fullmatch(staging_of(branch))
    if named is None:
        return None
    return StagingOwner(
        named["workflow"],
        named["task"],
        named["reference"],
        int(named["iteration"]),
        int(named["retry"]),
        named["execution"],
    )
