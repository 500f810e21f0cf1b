"""Which commit is the last publication of a task, whichever workflow made it."""

import pytest

from perago.domain.commit_metadata import LOGICAL_TASK_KEY, PREFIX, RUN, TASK_TYPE
from perago.domain.last_publication import PublishingTask, run_inside
from perago.domain.logical_execution import CommitId, CommitRecord

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
