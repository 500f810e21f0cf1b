"""Names that Perago makes for itself, and the time that an execution id tells."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.attempt import ExecutionId
from perago.domain.logical_execution import BranchName, CommitId
from perago.domain.names import (
    CHANCE_BITS,
    StagingOwner,
    canary_branches,
    execution_id_at,
    execution_time,
    fence_branch,
    owner_by_name,
    relocated_tag,
    scratch_branch,
    staging_of,
)

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT_MS = 1_767_225_600_000
ID = execution_id_at(MOMENT_MS, 12345)
STAGING = BranchName(f"perago-staging-w-r-seq-1-iteration-0-task-id-t-retry-0-exec-{ID}")
HEAD = CommitId("0123456789abcdef")


@given(st.integers(0, 2**47), st.integers(0, 2**CHANCE_BITS - 1))
def test_an_execution_id_is_32_digits_and_tells_its_millisecond(when: int, chance: int) -> None:
    found = execution_id_at(when, chance)
    assert len(found) == 32
    assert int(found[:12], 16) == when
    assert (found[12], found[16]) == ("7", "8")


def test_different_chances_are_different_ids() -> None:
    assert len({execution_id_at(MOMENT_MS, 1 << bit) for bit in range(CHANCE_BITS)}) == CHANCE_BITS


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        (ID, MOMENT),
        (STAGING, MOMENT),
        (scratch_branch(STAGING, HEAD), MOMENT),
        (canary_branches(ID)[0], MOMENT),
        (canary_branches(ID)[1], MOMENT),
        (fence_branch(ID), MOMENT),
        (relocated_tag(HEAD, ID), MOMENT),
        (f"perago-staging-w-{execution_id_at(5, 5)}-seq-1-exec-{ID}", MOMENT),
        ("perago-canary-x", None),
        ("perago-staging-w-exec-9f1c1f0e7a9b4c5d8e6f7a8b9c0d1e2f", None),
        (f"perago-canary-a{ID}", None),
        (f"perago-canary-{ID}a", None),
        ("", None),
    ],
    ids=[
        "an id", "staging branch", "scratch branch", "canary target", "canary source",
        "side branch of the fence", "relocated head", "an id in the reference name", "no id",
        "a random id", "digits before", "digits behind", "empty",
    ],
)  # fmt: skip
def test_a_name_tells_when_its_execution_began(name: str, moment: datetime | None) -> None:
    assert execution_time(name) == moment


def test_names_are_as_they_are_looked_for() -> None:
    execution = ExecutionId("e1")
    assert canary_branches(execution) == ("perago-canary-e1-target", "perago-canary-e1-source")
    assert fence_branch(execution) == "perago-canary-fence-e1"
    assert relocated_tag(HEAD, execution) == "perago-relocated-0123456789ab-e1"
    assert scratch_branch(STAGING, HEAD) == f"{STAGING}-onto-0123456789ab"


def test_a_scratch_branch_names_its_staging_branch() -> None:
    assert staging_of(scratch_branch(STAGING, HEAD)) == STAGING
    assert staging_of(STAGING) == STAGING


WORKFLOW, TASK = (f"{digit * 8}-0000-4000-8000-{digit * 12}" for digit in "ab")
OF_TASK = BranchName(
    f"perago-staging-{WORKFLOW}-my-seq-task-seq-3-iteration-2-task-id-{TASK}-retry-1-exec-{ID}"
)


def test_the_name_of_a_staging_branch_tells_its_attempt() -> None:
    owner = StagingOwner(WORKFLOW, TASK, "my-seq-task", 2, 1, ID)
    assert owner_by_name(OF_TASK) == owner
    assert owner_by_name(scratch_branch(OF_TASK, HEAD)) == owner
    assert owner_by_name(STAGING) is None, "its ids are no UUIDs"
