"""Cleaning: staging before local, each on its own, never a change of the result."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.attempt_workers import AttemptWorker
from tests.unit.app.attempt.attempt_harness import AttemptHarness, assert_accepted, reason_of

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
from perago.ports.workspace import Phase
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


def _warnings(worker: AttemptWorker) -> list[object]:
    told = worker.progress.events
    return [facts.get("warning") for phase, facts in told if phase is Phase.WARNED]


def _directories(harness: AttemptHarness) -> list[Path]:
    return list(harness.root.rglob(".perago-attempt.json"))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_staging_goes_before_the_directory_and_both_go(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = await AttemptHarness(tmp_path / "looked at", policy).started()
    seen: list[int] = []
    look = meanwhile(lambda: seen.append(len(_directories(harness))), before="clean-up")

    await harness.report(look)

    assert seen == [1]
    assert _directories(harness) == []
    assert harness.repository.branch_names() == {"main"}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_branch_that_stays_changes_nothing_else(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = await AttemptHarness(tmp_path / "struck", policy).started()
    worker = harness.worker([refuse("clean-up", REFUSED)])

    report = await harness.report_of(worker)

    assert report.error is None
    assert _directories(harness) == []
    assert len(harness.repository.branch_names()) == 2
    assert _warnings(worker) == [STAGING_FAILED]
    await assert_accepted(harness)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_directory_that_stays_changes_nothing_else(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = await AttemptHarness(tmp_path, policy).started()
    worker = harness.worker([DIRECTORY_STAYS])

    report = await harness.report_of(worker)

    assert report.error is None
    assert harness.repository.branch_names() == {"main"}
    assert len(_directories(harness)) == 1
    assert _warnings(worker) == [LOCAL_FAILED]
    await assert_accepted(harness)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_failed_attempt_that_cannot_clean_fails_for_its_own_reason(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = await AttemptHarness(tmp_path / "struck", policy).started()
    worker = harness.worker(
        [
            refuse("stage", RequestRefusedError("no commit today")),
            refuse("clean-up", REFUSED),
            DIRECTORY_STAYS,
        ]
    )

    report = await harness.report_of(worker)

    assert "no commit today" in reason_of(report)
    assert _warnings(worker) == [STAGING_FAILED, LOCAL_FAILED]


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
    harness = await AttemptHarness(
        tmp_path / "struck", policy, body=body, patience_seconds=0
    ).started()

    report = await harness.report(*faults)

    assert report.status == AttemptStatus.FAILED
    assert harness.repository.branch_names() == {"main"}
    assert harness.repository.head().commit == harness.input
    assert harness.repository.tags() == {}
    # Under `settled` the outcome stays where only an answer is missing (test_left_outcomes.py).
    passes = isinstance(report.error, UnavailableError | OutcomeUnknownError)
    stays = passes and policy is PolicySetting.SETTLED
    assert bool(_directories(harness)) == stays


async def test_changes_that_are_gone_before_their_commit_are_not_decided(tmp_path: Path) -> None:
    """A decision on nothing stays, and lakeFS refuses its merge for ever; a retry can succeed."""

    def write(workspace: Path, _: int) -> None:
        (workspace / "out.txt").write_text("written")

    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED, body=write).started()
    objects = lakefs_installation(harness.lakefs, WorkerHandle()).objects

    async def reset_branch() -> None:
        (staging,) = harness.repository.branch_names() - {"main"}
        await objects.delete_many(harness.repository.id, BranchName(staging), ["data/out.txt"])

    report = await harness.report(meanwhile(reset_branch, before="stage"))

    assert "PRG-L006" in reason_of(report)
    assert report.status == AttemptStatus.FAILED
    assert harness.repository.tags() == {}
