"""Keys of runs, and the names that are made of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.attempt import AttemptSnapshot, AttemptStatus
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    RepositoryId,
    workflow_segment,
)
from perago.domain.names import is_private_branch
from perago.domain.run import (
    Run,
    RunKey,
    base_tag,
    key_of_run,
    run_branch,
    run_key,
    workflow_of_run,
)

LAKEFS_NAME_CHARACTERS_MAX = 255


def key(
    workflow: str = "w", chain: str = "c", repository: str = "repo", branch: str = "main"
) -> RunKey:
    """The key of a run."""
    row = AttemptSnapshot(workflow, "t", "begin", "perago.begin", AttemptStatus.IN_PROGRESS)
    return run_key(row, chain, RepositoryId(repository), BranchName(branch))


@given(st.text(min_size=1))
def test_a_key_is_read_back_from_both_names_and_tells_its_workflow(workflow: str) -> None:
    made = key(workflow)
    assert key_of_run(run_branch(made)) == made
    assert key_of_run(base_tag(made)) == made
    assert workflow_of_run(made) == workflow_segment(workflow)
    assert len(run_branch(made)) <= LAKEFS_NAME_CHARACTERS_MAX


@pytest.mark.parametrize(
    "name", ["main", "perago-run-", "perago-run-w", "perago-base-w-12", "perago-staging-w-1-2"]
)
def test_another_name_has_no_key(name: str) -> None:
    assert key_of_run(name) is None


def test_the_branch_and_the_tag_of_a_run_have_different_names() -> None:
    """LakeFS refuses a tag that is named like a branch."""
    assert str(run_branch(key())) != str(base_tag(key()))


def test_a_run_branch_is_private() -> None:
    assert is_private_branch(run_branch(key()))


@given(st.text(), st.text(), st.text())
def test_a_key_tells_its_target_from_every_other(chain: str, repository: str, branch: str) -> None:
    made = key(chain=chain)
    run = Run(RepositoryId(repository), BranchName(branch), CommitId("base"), made)
    assert run.is_of_its_target is ((repository, branch) == ("repo", "main"))
    assert replace(run, repository=RepositoryId("repo"), branch=BranchName("main")).is_of_its_target


def test_another_chain_workflow_or_target_is_another_run() -> None:
    keys = {key(), key("v"), key(chain="d"), key(repository="other"), key(branch="dev")}
    assert len(keys) == 5
