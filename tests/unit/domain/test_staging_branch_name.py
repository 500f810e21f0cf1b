"""The name of a staging branch: the documents' format, legal characters, one per execution."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.attempt import AttemptSnapshot, AttemptStatus, ExecutionId
from perago.domain.logical_execution import (
    NAME_CHARACTERS_MAX,
    STAGING_BRANCH_PREFIX,
    staging_branch_name,
)
from perago.domain.names import execution_id_at

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


WORKFLOW = "8f0d2b1c-53f5-4d68-9b0f-3f4f4a8f2a11"
TASK = "0b5ea0a5-6d3f-4a1f-9a6c-2d4a9d1f8c77"
EXECUTION = execution_id_at(1_767_225_600_000, 7)


def test_a_long_name_is_cut_in_its_reference_and_keeps_every_id() -> None:
    """Workflow and task say whom to ask, the execution says how old the branch is."""
    long = replace(ATTEMPT, workflow_id=WORKFLOW, task_id=TASK, reference_name="r" * 300)
    found = name(long, EXECUTION)
    assert len(found) == NAME_CHARACTERS_MAX
    assert re.fullmatch(
        rf"perago-staging-{WORKFLOW}-r+-[0-9a-f]{{32}}-seq-7-iteration-3"
        rf"-task-id-{TASK}-retry-2-exec-{EXECUTION}",
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
