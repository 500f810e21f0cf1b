"""A tree that is not the one that was to be published is named by what differs."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import FaultWorld

from perago.app.attempt.publish import check_tree
from perago.domain.errors import FenceNotTrustedError
from perago.domain.logical_execution import NO_METADATA, BranchName
from perago.domain.policy import Level, PolicySetting, WorkspacePublicationPlan
from perago.domain.publication import Keep


async def test_a_tree_that_differs_says_in_what(tmp_path: Path) -> None:
    world = FaultWorld(tmp_path, PolicySetting.SETTLED)
    world.repository.commit({"data/other.txt": b"other"})
    published, place = world.repository.head(), world.input
    plan = WorkspacePublicationPlan(
        level=Level.SETTLED,
        repository=world.repository.id,
        branch=BranchName("main"),
        input_ref=place,
        base=place,
        staged=None,
        effect=Keep(place),
        supersedes=None,
        metadata=NO_METADATA,
        message="",
    )
    attempt = world.worker().world

    await check_tree(attempt, plan, published.commit, published)
    what = r"in: data/other\.txt; the commit stays on the branch"
    with pytest.raises(FenceNotTrustedError, match=what) as refused:
        await check_tree(attempt, plan, place, published)

    assert refused.value.code == "PRG-F024"
