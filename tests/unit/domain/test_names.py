"""Names that Perago makes for itself, and the time that an execution id tells.

The name of a staging branch: the documents' format, legal characters, one per execution.
"""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.lakefs import BranchName, CommitId
from perago.domain.names import (
    CHANCE_BITS,
    NAME_CHARACTERS_MAX,
    STAGING_BRANCH_PREFIX,
    StagingOwner,
    canary_branches,
    execution_id_at,
    execution_time,
    fence_branch,
    owner_by_name,
    relocated_tag,
    scratch_branch,
    staging_branch_name,
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


ATTEMPT = AttemptSnapshot(
    "wf-1", "t-1", "mix", "mix_stems", AttemptStatus.IN_PROGRESS, retry_count=2, seq=7, iteration=3
)
LEGAL = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def name(attempt: AttemptSnapshot = ATTEMPT, execution: str = "e1") -> str:
    return staging_branch_name(attempt, ExecutionId(execution))


def with_workflow(workflow_id: str) -> AttemptSnapshot:
    return replace(ATTEMPT, workflow_id=workflow_id)


def test_the_format_is_the_documents() -> None:
    assert name() == ("perago-staging-wf-1-mix-seq-7-iteration-3-task-id-t-1-retry-2-exec-e1")


@pytest.mark.parametrize(
    ("segment", "written"),
    [
        ("mix_2", "mix_2"),
        ("mix.stems", "mix-stems"),
        ("a  b//c", "a-b-c"),
        ("-mix_", "mix"),
        ("_-_mix-_-", "mix"),
        (".mix.", "mix"),
        ("ミックス", "unknown"),
        ("é", "unknown"),
        ("--__", "unknown"),
        ("", "unknown"),
        ("MiX", "MiX"),
    ],
    ids=["legal", "a dot", "a run of others", "trimmed", "trimmed of both", "dots around",
         "nothing legal", "not ASCII", "nothing left", "empty", "case is kept"],
)  # fmt: skip
def test_a_segment_is_made_legal(segment: str, written: str) -> None:
    found = name(replace(ATTEMPT, reference_name=segment))
    assert found == (f"perago-staging-wf-1-{written}-seq-7-iteration-3-task-id-t-1-retry-2-exec-e1")


@pytest.mark.parametrize(
    "other",
    [
        name(with_workflow("wf-2")),
        name(replace(ATTEMPT, task_id="t-2")),
        name(replace(ATTEMPT, reference_name="cut")),
        name(replace(ATTEMPT, retry_count=3)),
        name(replace(ATTEMPT, seq=8)),
        name(replace(ATTEMPT, iteration=4)),
        name(execution="e2"),
    ],
    ids=["workflow", "task", "reference", "retry", "seq", "iteration", "execution"],
)
def test_the_name_differs_by(other: str) -> None:
    assert other != name()


def test_a_name_of_the_longest_length_is_not_touched() -> None:
    room = NAME_CHARACTERS_MAX - len(name(with_workflow("")).replace("unknown", ""))
    longest = name(with_workflow("w" * room))
    assert len(longest) == NAME_CHARACTERS_MAX
    assert longest.endswith("-exec-e1")
    cut = name(with_workflow("w" * (room + 1)))
    assert len(cut) < NAME_CHARACTERS_MAX
    assert "w" * (room + 1) not in cut


STAGED_WORKFLOW = "8f0d2b1c-53f5-4d68-9b0f-3f4f4a8f2a11"
STAGED_TASK = "0b5ea0a5-6d3f-4a1f-9a6c-2d4a9d1f8c77"
EXECUTION = execution_id_at(1_767_225_600_000, 7)


def test_a_long_name_is_cut_in_its_reference_and_keeps_every_id() -> None:
    """Workflow and task say whom to ask, the execution says how old the branch is."""
    long = replace(
        ATTEMPT, workflow_id=STAGED_WORKFLOW, task_id=STAGED_TASK, reference_name="r" * 300
    )
    found = name(long, EXECUTION)
    assert len(found) == NAME_CHARACTERS_MAX
    assert re.fullmatch(
        rf"perago-staging-{STAGED_WORKFLOW}-r+-[0-9a-f]{{32}}-seq-7-iteration-3"
        rf"-task-id-{STAGED_TASK}-retry-2-exec-{EXECUTION}",
        found,
    )
    assert found != name(replace(long, reference_name="r" * 299), EXECUTION)


def test_ids_that_are_too_long_themselves_are_hashed_where_the_name_is_too_long() -> None:
    attempt = replace(ATTEMPT, workflow_id="w" * 300, task_id="t" * 300)
    found = name(attempt, EXECUTION)
    assert len(found) <= NAME_CHARACTERS_MAX
    assert found.endswith(f"-retry-2-exec-{EXECUTION}")
    assert found != name(replace(attempt, workflow_id="w" * 301), EXECUTION)


@given(st.text(max_size=120), st.text(max_size=120), st.text(max_size=60))
def test_every_name_is_a_legal_branch(workflow: str, reference: str, execution: str) -> None:
    attempt = replace(ATTEMPT, workflow_id=workflow, reference_name=reference)
    found = name(attempt, execution)
    assert LEGAL.fullmatch(found)
    assert len(found) <= NAME_CHARACTERS_MAX
    assert found.startswith(STAGING_BRANCH_PREFIX)


def test_executions_never_share_a_name() -> None:
    """Not even where the names are cut, or where other segments are written alike."""
    references = ["a", "a.b", "a-b", "a_b" * 60, "a.b" * 60, "a" * 180]
    names = [
        name(replace(ATTEMPT, reference_name=reference), f"{number:032x}")
        for number, reference in enumerate(references * 20)
    ]
    assert len(set(names)) == len(names)
