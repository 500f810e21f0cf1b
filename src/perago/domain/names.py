"""Names of canary, scratch and run branches, of relocation tags, and of what Spark leaves behind.

Staging branches, decision tags and attempt marks are named in `logical_execution`. Everything here
carries the execution id of its maker, because only an execution id in a name tells the age: garbage
collection has to know it also of a branch on which nothing was committed yet. `is_job_litter` and
`is_foreign_write` judge objects that a Spark task wrote.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from perago.domain.attempt import ExecutionId
from perago.domain.logical_execution import STAGING_BRANCH_PREFIX, BranchName, CommitId, TagName
from perago.domain.paths import is_reserved_object, listing_prefix

# Prefixes are how garbage collection finds what is Perago's, also of older releases: none may
# change.
CANARY_BRANCH_PREFIX = "perago-canary-"
_PROTECTED_CANARY_PREFIX = f"{CANARY_BRANCH_PREFIX}protected-"
PROTECTED_CANARIES = f"{_PROTECTED_CANARY_PREFIX}*"  # as a protection rule
RELOCATED_TAG_PREFIX = "perago-relocated-"

SCRATCH_BRANCH_PREFIX = "perago-scratch-"
RUN_BRANCH_PREFIX = "perago-run-"
PRIVATE_BRANCH_PREFIXES = (
    STAGING_BRANCH_PREFIX,
    SCRATCH_BRANCH_PREFIX,
    RUN_BRANCH_PREFIX,
    CANARY_BRANCH_PREFIX,
)

# What version 7 of a UUID leaves beside 48 bits of time: 12 and 62, of which two are given up so
# that the digit with the variant is always 8.
CHANCE_BITS = 72
_EXECUTION_ID = re.compile(
    r"(?<![0-9A-Za-z])[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}(?![0-9A-Za-z])"
)
# The beginning of a commit id, 12 digits, as `scratch_branch` writes it.
_SCRATCH = re.compile(r"(?P<staging>.+)-onto-[0-9a-f]{12}")


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


def canary_branches(execution_id: ExecutionId) -> tuple[BranchName, BranchName]:
    """Target and source of one check of the fence."""
    name = f"{CANARY_BRANCH_PREFIX}{execution_id}"
    return BranchName(f"{name}-target"), BranchName(f"{name}-source")


def protected_canary_branches(execution_id: ExecutionId) -> tuple[BranchName, BranchName]:
    """Target and source of one try on a protected branch; a rule covers the target alone."""
    source = f"{CANARY_BRANCH_PREFIX}{execution_id}-source"
    return BranchName(f"{_PROTECTED_CANARY_PREFIX}{execution_id}"), BranchName(source)


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


# Of the commit protocols of Hadoop, S3A, Spark and Databricks. They leave these behind when a job
# dies, and readers of a table skip them.
LITTER_NAMES = frozenset({"_SUCCESS", "_temporary", "_started"})
LITTER_SEGMENT_PREFIXES = ("__magic", ".spark-staging-", "_temporary-", "_started_", "_committed_")


def is_job_litter(path: str) -> bool:
    """Whether an object is left over from a commit protocol and no part of any table.

    Directory markers (a trailing slash), `_SUCCESS`, task directories, Hadoop's hidden `.crc`
    files. A `_delta_log` with its own checksums is part of a table.
    """
    if path.endswith("/"):
        return True
    segments = path.split("/")
    name = segments[-1]
    if name.startswith(".") and name.endswith(".crc"):
        return True
    return any(
        segment in LITTER_NAMES or segment.startswith(LITTER_SEGMENT_PREFIXES)
        for segment in segments
    )


def is_foreign_write(path: str, prefix: str) -> bool:
    """Whether a Spark task may not write there: outside the prefix, or a reserved path."""
    return is_reserved_object(path) or not path.startswith(listing_prefix(prefix))
