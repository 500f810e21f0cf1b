"""Names of checkpoint branches, and what their commits say.

A kept outcome reads back as it was, and anything else is none.
"""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.checkpoints import (
    NOTE,
    NUMBER,
    TAKEN_AT,
    CheckpointRecord,
    KeptOutcome,
    RanFor,
    checkpoint_branch,
    checkpoint_branches_of,
    checkpoint_metadata,
    key_of_checkpoint,
    read_checkpoint,
    read_kept_outcome,
    workflow_of_key,
)
from perago.domain.commit_metadata import PHASE
from perago.domain.lakefs import (
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
    WorkspaceReference,
)
from perago.domain.logical_execution import LogicalExecutionKey
from perago.domain.names import execution_id_at, execution_time, is_private_branch

WORKFLOW = "8f0d2b1c-53f5-4d68-9b0f-3f4f4a8f2a11"
KEY = LogicalExecutionKey(f"{WORKFLOW}-{'a' * 32}-{'b' * 32}")
MOMENT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
EARLY, LATE = (execution_id_at(milliseconds, 7) for milliseconds in (1, 2))
ROW = AttemptSnapshot("w1", "t1", "train_ref", "train", AttemptStatus.IN_PROGRESS, retry_count=2)
RECORD = CheckpointRecord(3, {"epoch": 12}, MOMENT)


def test_the_name_tells_the_execution_it_belongs_to() -> None:
    branch = checkpoint_branch(KEY, EARLY)
    assert key_of_checkpoint(branch) == KEY
    assert workflow_of_key(KEY) == WORKFLOW
    assert branch.startswith(checkpoint_branches_of(KEY))
    assert is_private_branch(branch)


def test_names_sort_by_the_beginning_of_their_executions() -> None:
    assert checkpoint_branch(KEY, EARLY) < checkpoint_branch(KEY, LATE)
    moment = execution_time(checkpoint_branch(KEY, LATE))
    assert moment is not None
    assert moment.timestamp() == 0.002


def test_no_release_takes_the_name_for_a_staging_or_a_canary_branch() -> None:
    assert checkpoint_branch(KEY, EARLY).startswith("perago-scratch-checkpoint-")


@pytest.mark.parametrize(
    "name",
    [
        "main",
        "perago-scratch-checkpoint-",
        "perago-scratch-checkpoint-alone",
        f"perago-scratch-checkpoint-{'a' * 32}-{'b' * 32}-",
        f"perago-scratch-checkpoint--{'a' * 32}-{'b' * 32}-x",
        f"perago-staging-{KEY}-{EARLY}",
    ],
)
def test_other_names_are_no_checkpoints(name: str) -> None:
    assert key_of_checkpoint(BranchName(name)) is None


def committed(**changes: str) -> CommitRecord:
    metadata = checkpoint_metadata(ROW, ExecutionId(EARLY), RECORD)
    return CommitRecord(CommitId("c1"), (), metadata | changes)


def test_a_commit_reads_back_as_the_checkpoint_it_was_made_for() -> None:
    assert read_checkpoint(committed()) == RECORD


def test_a_moment_without_a_zone_is_utc() -> None:
    found = read_checkpoint(committed(**{TAKEN_AT: "2026-03-01T12:30:00"}))
    assert found == RECORD


@pytest.mark.parametrize(
    "changes",
    [
        {PHASE: "try"},
        {NUMBER: "three"},
        {NOTE: "{"},
        {TAKEN_AT: "yesterday"},
    ],
    ids=["a staged commit", "number", "note", "moment"],
)
def test_what_says_anything_else_is_no_checkpoint(changes: dict[str, str]) -> None:
    assert read_checkpoint(committed(**changes)) is None


def test_a_commit_without_metadata_is_no_checkpoint() -> None:
    assert read_checkpoint(CommitRecord(CommitId("c1"), ())) is None


WORKSPACE = WorkspaceReference(RepositoryId("repo"), BranchName("main"), CommitId("c0"))
RAN_KEY = LogicalExecutionKey("w-chain-input")
RAN_FOR = RanFor.of(RAN_KEY, "edit", WORKSPACE, "data", {"a": 1, "b": [2]})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(result=st.dictionaries(st.text(), JSON), seconds=st.floats(0, 1e6))
def test_a_record_reads_back_as_it_was(result: dict[str, object], seconds: float) -> None:
    kept = KeptOutcome(RAN_FOR, result, seconds, "a directory")
    assert read_kept_outcome(kept.as_text()) == kept


@given(cut=st.integers(0, 10_000))
def test_a_torn_record_is_none(cut: int) -> None:
    text = KeptOutcome(RAN_FOR, {"n": 1}, 1.0, "a directory").as_text()
    assert read_kept_outcome(text[: cut % len(text)]) is None


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", '{"format": 1}', "\x00"])
def test_what_is_no_record_is_none(text: str) -> None:
    assert read_kept_outcome(text) is None


def test_another_format_is_none() -> None:
    record = json.loads(KeptOutcome(RAN_FOR, {}, 0.0, "").as_text())
    assert read_kept_outcome(json.dumps({**record, "format": 2})) is None


def test_the_order_of_params_is_nothing() -> None:
    assert RanFor.of(RAN_KEY, "edit", WORKSPACE, "data", {"b": [2], "a": 1}) == RAN_FOR


def test_each_part_tells_one_execution_from_another() -> None:
    other = WorkspaceReference(RepositoryId("repo"), BranchName("main"), CommitId("c1"))
    others = [
        RanFor.of(LogicalExecutionKey("other"), "edit", WORKSPACE, "data", {"a": 1, "b": [2]}),
        RanFor.of(RAN_KEY, "other", WORKSPACE, "data", {"a": 1, "b": [2]}),
        RanFor.of(RAN_KEY, "edit", other, "data", {"a": 1, "b": [2]}),
        RanFor.of(RAN_KEY, "edit", WORKSPACE, "other", {"a": 1, "b": [2]}),
        RanFor.of(RAN_KEY, "edit", WORKSPACE, "data", {"a": 2, "b": [2]}),
    ]
    assert len({RAN_FOR, *others}) == len(others) + 1
