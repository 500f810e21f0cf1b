"""Which key stands on which commit: the table of section 3."""

from dataclasses import replace

import pytest
from tests.unit.domain.histories import PLACE, STAGED

from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.commit_metadata import (
    CONFIRM,
    NOOP,
    RESULT,
    RESULT_PART,
    RESULT_PARTS,
    TRY,
    PublicationIdentity,
    commit_message,
    confirm_metadata,
    try_metadata,
)
from perago.domain.logical_execution import BranchName, CommitId, StagedReference

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
