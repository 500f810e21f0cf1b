"""Cleaning: staging before local, each on its own, never a change of the result."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import AttemptScene, assert_accepted, warnings

from perago.adapters.memory.installations import lakefs_installation
from perago.adapters.memory.system import WorkerHandle
from perago.app.attempt.complete import LOCAL_FAILED, STAGING_FAILED
from perago.domain.attempt import AttemptStatus
from perago.domain.lakefs import BranchName
from perago.domain.policy import PolicySetting
from perago.ports.errors import (
    LocalDiskError,
    OutcomeUnknownError,
    RequestRefusedError,
    UnavailableError,
)
from perago.testing.faults import (
    Fault,
    Moment,
    Refuse,
    Side,
    lose_answer,
    meanwhile,
    refuse,
)

POLICIES = [PolicySetting.SETTLED, PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE]
REFUSED = RequestRefusedError("refused")
DIRECTORY_STAYS = Refuse(
    Moment("directories.remove", Side.BEFORE), LocalDiskError("the disk is mounted read-only")
)


def _link(workspace: Path, _: int) -> None:
    (workspace / "out.txt").write_text("written")
    (workspace / "link").symlink_to("kept.txt")


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_staging_goes_before_the_directory_and_both_go(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = await AttemptScene(tmp_path, policy).started()
    seen: list[int] = []
    look = meanwhile(lambda: seen.append(len(scene.directories())), before="clean-up")

    await scene.next_attempt(look)

    assert seen == [1]
    assert scene.directories() == []
    assert scene.repository.branch_names() == {"main"}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_branch_that_stays_changes_nothing_else(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = await AttemptScene(tmp_path / "struck", policy).started()
    story = await scene.next_attempt(refuse("clean-up", REFUSED))

    assert story.accepted, story.reason
    assert scene.directories() == []
    assert len(scene.repository.branch_names()) == 2
    assert warnings(story) == [STAGING_FAILED]
    await assert_accepted(scene)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_directory_that_stays_changes_nothing_else(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = await AttemptScene(tmp_path, policy).started()
    story = await scene.next_attempt(DIRECTORY_STAYS)

    assert story.accepted, story.reason
    assert scene.repository.branch_names() == {"main"}
    assert len(scene.directories()) == 1
    assert warnings(story) == [LOCAL_FAILED]
    await assert_accepted(scene)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_failed_attempt_that_cannot_clean_fails_for_its_own_reason(
    tmp_path: Path, policy: PolicySetting
) -> None:
    scene = await AttemptScene(tmp_path / "struck", policy).started()
    refused = refuse("stage", RequestRefusedError("no commit today"))

    story = await scene.next_attempt(refused, refuse("clean-up", REFUSED), DIRECTORY_STAYS)

    assert "no commit today" in str(story.reason)
    assert warnings(story) == [STAGING_FAILED, LOCAL_FAILED]


STAGING_FAULTS: Mapping[str, Sequence[Fault]] = {
    "symlink": (),
    "branch is made, answer lost": (lose_answer("branch"),),
    "upload": (refuse("objects.upload", REFUSED),),
    "verification": (refuse("commits.uncommitted_page", UnavailableError("no answer")),),
    "commit": (refuse("stage", REFUSED),),
    "commit, answer lost": (lose_answer("stage"),),
}


@pytest.mark.parametrize("faults", STAGING_FAULTS.values(), ids=STAGING_FAULTS)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_failure_inside_staging_leaves_no_branch(
    tmp_path: Path, policy: PolicySetting, faults: Sequence[Fault]
) -> None:
    body = None if faults else _link
    # Without patience, because with it a lost answer ends no attempt.
    # In a harness, because an attempt of the kit leaves its outcome to no other.
    scene = AttemptHarness(tmp_path / "struck", policy, body=body, patience_seconds=0)
    await scene.start()

    report = await scene.report(*faults)

    assert report.status == AttemptStatus.FAILED
    assert scene.repository.branch_names() == {"main"}
    assert scene.repository.head().commit == scene.input
    assert scene.repository.tags() == {}
    # Under `settled` the outcome stays where only an answer is missing (test_left_outcomes.py).
    passes = isinstance(report.error, UnavailableError | OutcomeUnknownError)
    stays = passes and policy is PolicySetting.SETTLED
    assert bool(scene.directories()) == stays


async def test_changes_that_are_gone_before_their_commit_are_not_decided(tmp_path: Path) -> None:
    """A decision on nothing stays, and lakeFS refuses its merge for ever; a retry can succeed."""

    def write(workspace: Path, _: int) -> None:
        (workspace / "out.txt").write_text("written")

    scene = await AttemptScene(tmp_path, PolicySetting.SETTLED, body=write).started()
    objects = lakefs_installation(scene.lakefs, WorkerHandle()).objects

    async def reset_branch() -> None:
        (staging,) = scene.repository.branch_names() - {"main"}
        await objects.delete_many(scene.repository.id, BranchName(staging), ["data/out.txt"])

    story = await scene.next_attempt(meanwhile(reset_branch, before="stage"))

    assert "PRG-L006" in str(story.reason)
    assert story.status == AttemptStatus.FAILED
    assert scene.repository.tags() == {}
