"""Cleaning: staging before local, each on its own, never a change of the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import pytest
from tests.attempt_worlds import AttemptWorker
from tests.unit.app.attempt.fault_world import FaultWorld, assert_accepted

from perago.app.attempt.complete import LOCAL_FAILED, STAGING_FAILED
from perago.app.attempt.run_attempt import AttemptReport
from perago.domain.attempt import AttemptStatus, ExecutionId
from perago.domain.policy import PolicySetting
from perago.ports.errors import LocalDiskError, RequestRefusedError, UnavailableError
from perago.ports.workspace import AttemptDirectories, AttemptMarker, Leftover, Phase
from perago.testing.faults import Fault, lose_answer, meanwhile, refuse

POLICIES = [PolicySetting.SETTLED, PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE]
REFUSED = RequestRefusedError("refused")


@final
@dataclass
class StubbornDirectories(AttemptDirectories):
    """Directories that cannot be removed."""

    inner: AttemptDirectories

    async def create(self, marker: AttemptMarker) -> Path:
        """As the disk does."""
        return await self.inner.create(marker)

    async def record_staging(self, directory: Path, repository: str, branch: str) -> None:
        """As the disk does."""
        await self.inner.record_staging(directory, repository, branch)

    async def check(self, directory: Path, execution_id: ExecutionId) -> None:
        """As the disk does."""
        await self.inner.check(directory, execution_id)

    async def remove(self, directory: Path) -> None:
        """As a disk that was mounted read-only."""
        raise LocalDiskError(f"cannot remove {directory}")

    async def leftovers(self, *, older_than_seconds: float) -> Sequence[Leftover]:
        """As the disk does."""
        return await self.inner.leftovers(older_than_seconds=older_than_seconds)

    async def keep_outcome(self, directory: Path, key: str, text: str) -> None:
        """As the disk does."""
        await self.inner.keep_outcome(directory, key, text)

    async def kept_outcomes(self, key: str) -> Sequence[tuple[Path, str]]:
        """As the disk does."""
        return await self.inner.kept_outcomes(key)

    async def take_over(self, directory: Path, marker: AttemptMarker) -> None:
        """As the disk does."""
        await self.inner.take_over(directory, marker)


def _link(workspace: Path, _: int) -> None:
    (workspace / "out.txt").write_text("written")
    (workspace / "link").symlink_to("kept.txt")


def _warnings(worker: AttemptWorker) -> list[object]:
    told = worker.progress.events
    return [facts.get("warning") for phase, facts in told if phase is Phase.WARNED]


def _directories(world: FaultWorld) -> list[Path]:
    return list(world.root.rglob(".perago-attempt.json"))


async def _attempt(world: FaultWorld, worker: AttemptWorker) -> AttemptReport:
    report = await world.attempt(worker)
    assert report is not None
    return report


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_staging_goes_before_the_directory_and_both_go(
    tmp_path: Path, policy: PolicySetting
) -> None:
    world = FaultWorld(tmp_path / "looked at", policy)
    await world.start()
    seen: list[int] = []
    look = meanwhile(lambda: seen.append(len(_directories(world))), before="clean-up")

    await _attempt(world, world.worker([look]))

    assert seen == [1]
    assert _directories(world) == []
    assert world.repository.branch_names() == {"main"}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_branch_that_stays_changes_nothing_else(
    tmp_path: Path, policy: PolicySetting
) -> None:
    world = FaultWorld(tmp_path / "struck", policy)
    await world.start()
    worker = world.worker([refuse("clean-up", REFUSED)])

    report = await _attempt(world, worker)

    assert report.error is None
    assert _directories(world) == []
    assert len(world.repository.branch_names()) == 2
    assert _warnings(worker) == [STAGING_FAILED]
    await assert_accepted(world)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_directory_that_stays_changes_nothing_else(
    tmp_path: Path, policy: PolicySetting
) -> None:
    world = FaultWorld(tmp_path, policy)
    await world.start()
    worker = world.worker()
    stubborn = StubbornDirectories(worker.world.directories)
    worker = replace(worker, world=replace(worker.world, directories=stubborn))

    report = await _attempt(world, worker)

    assert report.error is None
    assert world.repository.branch_names() == {"main"}
    assert len(_directories(world)) == 1
    assert _warnings(worker) == [LOCAL_FAILED]
    await assert_accepted(world)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
async def test_a_failed_attempt_that_cannot_clean_fails_for_its_own_reason(
    tmp_path: Path, policy: PolicySetting
) -> None:
    world = FaultWorld(tmp_path / "struck", policy)
    await world.start()
    worker = world.worker(
        [
            refuse("stage", RequestRefusedError("no commit today")),
            refuse("clean-up", REFUSED),
        ]
    )
    stubborn = StubbornDirectories(worker.world.directories)
    worker = replace(worker, world=replace(worker.world, directories=stubborn))

    report = await _attempt(world, worker)

    assert report.update is not None
    assert "no commit today" in str(report.update.reason)
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
async def test_a_failure_inside_staging_leaves_no_branch_and_no_directory(
    tmp_path: Path, policy: PolicySetting, faults: Sequence[Fault]
) -> None:
    body = None if faults else _link
    # Without patience, because with it a lost answer ends no attempt.
    world = FaultWorld(tmp_path / "struck", policy, body=body, patience_seconds=0)
    await world.start()

    report = await _attempt(world, world.worker(faults))

    assert report.update is not None
    assert report.update.status is AttemptStatus.FAILED
    assert world.repository.branch_names() == {"main"}
    assert world.repository.head().commit == world.input
    assert world.repository.tags() == {}
    assert _directories(world) == []
