"""A kept outcome reads back as it was, and anything else is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.kept_outcome import KeptOutcome, RanFor, read_kept_outcome
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    LogicalExecutionKey,
    RepositoryId,
    WorkspaceReference,
)

WORKSPACE = WorkspaceReference(RepositoryId("repo"), BranchName("main"), CommitId("c0"))
KEY = LogicalExecutionKey("w-chain-input")
RAN_FOR = RanFor.of(KEY, "edit", WORKSPACE, "data", {"a": 1, "b": [2]})
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
    assert RanFor.of(KEY, "edit", WORKSPACE, "data", {"b": [2], "a": 1}) == RAN_FOR


def test_each_part_tells_one_execution_from_another() -> None:
    other = WorkspaceReference(RepositoryId("repo"), BranchName("main"), CommitId("c1"))
    others = [
        RanFor.of(LogicalExecutionKey("other"), "edit", WORKSPACE, "data", {"a": 1, "b": [2]}),
        RanFor.of(KEY, "other", WORKSPACE, "data", {"a": 1, "b": [2]}),
        RanFor.of(KEY, "edit", other, "data", {"a": 1, "b": [2]}),
        RanFor.of(KEY, "edit", WORKSPACE, "other", {"a": 1, "b": [2]}),
        RanFor.of(KEY, "edit", WORKSPACE, "data", {"a": 2, "b": [2]}),
    ]
    assert len({RAN_FOR, *others}) == len(others) + 1
