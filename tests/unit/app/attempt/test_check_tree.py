"""A merge that made something else than it had to is named by what differs."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness

from perago.app.attempt.stage import ExpectedMerge, check_merge
from perago.domain.errors import FenceNotTrustedError
from perago.domain.lakefs import BranchName, CommitId
from perago.domain.policy import PolicySetting
from perago.testing.faults import answer


def expected(harness: AttemptHarness, tree_of: CommitId) -> ExpectedMerge:
    """A merge onto the input that has the tree of a commit."""
    return ExpectedMerge(
        harness.repository.id, BranchName("main"), (harness.input,), tree_of, terminal=True
    )


async def test_a_tree_that_differs_says_in_what(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    harness.repository.commit({"data/other.txt": b"other"})
    published = harness.repository.head().commit
    ports = harness.worker().harness

    await check_merge(ports, published, expected(harness, published))
    what = r"in: data/other\.txt; the commit stays on the branch"
    with pytest.raises(FenceNotTrustedError, match=what) as refused:
        await check_merge(ports, published, expected(harness, harness.input))

    assert refused.value.code == "PRG-F024"


async def test_one_tree_in_two_ranges_is_no_difference(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    harness.repository.commit({"data/other.txt": b"other"})
    made = harness.repository.head()
    ports = harness.worker([answer("commits.read", replace(made, metarange="another"))]).harness

    await check_merge(ports, made.commit, expected(harness, made.commit))
