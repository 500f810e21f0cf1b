"""Which key stands on which commit: the table of section 3.

Which commit is the last publication of a task, whichever workflow made it.

Which trace contexts are taken over from a task's input.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.domain.histories import PLACE, STAGED

from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.commit_metadata import (
    CONFIRM,
    LOGICAL_TASK_KEY,
    NOOP,
    PREFIX,
    RESULT,
    RESULT_PART,
    RESULT_PARTS,
    RUN,
    TASK_TYPE,
    TRY,
    PublicationIdentity,
    PublishingTask,
    accept_traceparent,
    commit_message,
    confirm_metadata,
    run_inside,
    traceparent_of,
    try_metadata,
)
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, StagedReference

ATTEMPT = AttemptSnapshot(
    "wf", "t1", "mix", "mix_stems", AttemptStatus.IN_PROGRESS, retry_count=1, iteration=2
)
PLAIN = PublicationIdentity(
    attempt=ATTEMPT,
    execution_id=ExecutionId("e1"),
    workspace=PLACE,
    prefix="audio",
    staging_branch="perago-staging-mine",
    policy="head-parent",
    level="head-parent+fence",
)
SETTLED = replace(PLAIN, policy="settled", level="settled", execution_key="chain-place")
TRACED = replace(PLAIN, traceparent="00-aa-bb-01")
VERSIONED = replace(PLAIN, code_version="app@sha256:0a")

ON_BOTH = {
    "perago.logical_task_key": "wf/mix/2",
    "perago.task_type": "mix_stems",
    "perago.task_id": "t1",
    "perago.retry_count": "1",
    "perago.input_ref": "A",
    "perago.target_branch": "main",
    "perago.prefix": "audio",
    "perago.staging_branch": "perago-staging-mine",
    "perago.execution_id": "e1",
    "perago.policy": "head-parent",
    "perago.level": "head-parent+fence",
}
OF_SETTLED = {
    "perago.policy": "settled",
    "perago.level": "settled",
    "perago.logical_execution_key": "chain-place",
}


def confirm(identity: PublicationIdentity, supersedes: str | None = None) -> dict[str, str]:
    return confirm_metadata(
        identity, staged=STAGED, expected_head=CommitId("H"), supersedes=supersedes
    )


OF_MERGE = {
    "perago.phase": "confirm",
    "perago.staging_branch": "perago-staging-1",
    "perago.staging_commit": "S",
    "perago.expected_head": "H",
}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (try_metadata(PLAIN, {}), {**ON_BOTH, "perago.phase": "try"}),
        (try_metadata(SETTLED, {RESULT: "json:{}", NOOP: "true"}),
         {**ON_BOTH, **OF_SETTLED, "perago.phase": "try", "perago.result": "json:{}",
          "perago.noop": "true"}),
        (try_metadata(TRACED, {}),
         {**ON_BOTH, "perago.phase": "try", "perago.traceparent": "00-aa-bb-01"}),
        (confirm(PLAIN), {**ON_BOTH, **OF_MERGE}),
        (confirm(SETTLED), {**ON_BOTH, **OF_SETTLED, **OF_MERGE}),
        (confirm(TRACED), {**ON_BOTH, **OF_MERGE, "perago.traceparent": "00-aa-bb-01"}),
        (try_metadata(VERSIONED, {}),
         {**ON_BOTH, "perago.phase": "try", "perago.code_version": "app@sha256:0a"}),
        (confirm(VERSIONED), {**ON_BOTH, **OF_MERGE, "perago.code_version": "app@sha256:0a"}),
        (confirm(PLAIN, ""), {**ON_BOTH, **OF_MERGE, "perago.supersedes": ""}),
        (confirm(PLAIN, "H"), {**ON_BOTH, **OF_MERGE, "perago.supersedes": "H"}),
        (try_metadata(replace(PLAIN, traceparent=""), {}), {**ON_BOTH, "perago.phase": "try"}),
    ],
    ids=["try", "try, settled", "try, traced", "confirm", "confirm, settled", "confirm, traced",
         "try, versioned", "confirm, versioned", "confirm, lineage, first",
         "confirm, lineage, over another", "no trace"],
)  # fmt: skip
def test_the_keys_of_a_commit(metadata: dict[str, str], expected: dict[str, str]) -> None:
    assert metadata == expected


def test_a_resumed_publication_names_the_branch_that_holds_the_staged_data() -> None:
    earlier = replace(STAGED, branch=BranchName("perago-staging-of-the-first-attempt"))
    metadata = confirm_metadata(SETTLED, staged=earlier, expected_head=CommitId("A"))
    assert metadata["perago.staging_branch"] == earlier.branch
    assert SETTLED.staging_branch != earlier.branch


def test_the_result_never_stands_on_the_merge() -> None:
    staged = StagedReference(PLACE.repository, BranchName("b"), CommitId("S"))
    metadata = confirm_metadata(SETTLED, staged=staged, expected_head=CommitId("A"))
    assert not {RESULT, NOOP, RESULT_PARTS, RESULT_PART} & set(metadata)
    assert RESULT_PART == "perago.result_part"
    assert (RESULT, RESULT_PARTS, NOOP) == ("perago.result", "perago.result_parts", "perago.noop")


@pytest.mark.parametrize("phase", [TRY, CONFIRM])
def test_the_message_says_task_workflow_and_attempt(phase: str) -> None:
    expected = f"perago {phase}: mix_stems (mix) of workflow wf, attempt 2"
    assert commit_message(ATTEMPT, phase) == expected


TASK = PublishingTask("index", "index_step", "data")
MINE = {TASK_TYPE: "index", LOGICAL_TASK_KEY: "w1/index_step/0", PREFIX: "data"}


def commit(name: str, metadata: dict[str, str], *parents: str) -> CommitRecord:
    """A commit that says this."""
    return CommitRecord(CommitId(name), tuple(map(CommitId, parents)), metadata)


@pytest.mark.parametrize(
    ("changes", "is_mine"),
    [
        ({}, True),
        ({LOGICAL_TASK_KEY: "another workflow/index_step/7"}, True),
        ({LOGICAL_TASK_KEY: "w1/another step/0"}, False),
        ({TASK_TYPE: "another task"}, False),
        ({TASK_TYPE: ""}, False),
        ({PREFIX: "data/2026"}, False),
    ],
)
def test_a_publication_is_of_the_task_by_type_step_and_prefix(
    changes: dict[str, str], *, is_mine: bool
) -> None:
    assert TASK.made(commit("c", {**MINE, **changes})) is is_mine


def test_the_newest_one_counts() -> None:
    human, newest, oldest = commit("h", {}), commit("n", MINE), commit("o", MINE)
    assert TASK.last_of([human, newest, oldest]) is newest
    assert TASK.last_of([human]) is None


def test_a_merged_run_has_its_commits_behind_the_second_parent() -> None:
    assert run_inside(commit("c", {RUN: "key"}, "base", "head")) == "head"
    assert run_inside(commit("squashed", {RUN: "key"}, "base")) is None
    assert run_inside(commit("merged by hand", {}, "base", "head")) is None


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        (GOOD, GOOD),
        (f"00-{TRACE}-{PARENT}-00", f"00-{TRACE}-{PARENT}-00"),
        (f"00-{TRACE}-{PARENT}-ff", f"00-{TRACE}-{PARENT}-ff"),
        (f"01-{TRACE}-{PARENT}-01", GOOD),
        (f"cc-{TRACE}-{PARENT}-03-what-comes-later", GOOD),
        (f"cc-{TRACE}-{PARENT}-fe", f"00-{TRACE}-{PARENT}-00"),
        (f"ff-{TRACE}-{PARENT}-01", None),
        (f"00-{'0' * 32}-{PARENT}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{PARENT}-01", None),
        (f"{GOOD}-more", None),
        (f"01-{TRACE}-{PARENT}-01.more", None),
        (f" {GOOD}", None),
        (f"{GOOD}\n", None),
        (f"00-{TRACE[1:]}-{PARENT}-01", None),
        (f"00-{TRACE}-{PARENT}", None),
        ("", None),
        (None, None),
        (7, None),
        ([GOOD], None),
        (GOOD.encode(), None),
        (f"01-{TRACE}-{PARENT}-01-".ljust(512, "x"), GOOD),
        (f"01-{TRACE}-{PARENT}-01-".ljust(513, "x"), None),
        (f"01-{TRACE}-{PARENT}-01-two\nlines", None),
    ],
    ids=[
        "sampled", "not sampled", "flags of version 00 are kept", "later version",
        "later version with more fields", "later flags are dropped", "version ff", "no trace",
        "no parent", "upper case", "version 00 with more fields", "more without a dash",
        "leading space", "trailing newline", "short trace", "no flags", "empty", "absent",
        "a number", "a list", "bytes", "as long as allowed", "longer than allowed",
        "two lines",
    ],
)  # fmt: skip
def test_the_table(value: object, accepted: str | None) -> None:
    assert accept_traceparent(value) == accepted
    assert traceparent_of({"traceparent": value, "params": {}}) == accepted


def test_an_input_without_one_has_none() -> None:
    assert traceparent_of({"params": {"traceparent": GOOD}}) is None


@given(st.binary(min_size=26, max_size=26))
def test_what_was_accepted_is_accepted_again(seed: bytes) -> None:
    digits = seed.hex()
    once = accept_traceparent(f"{digits[:2]}-{digits[2:34]}-{digits[34:50]}-{digits[50:]}")
    assert once is None or (once.startswith("00-") and accept_traceparent(once) == once)
