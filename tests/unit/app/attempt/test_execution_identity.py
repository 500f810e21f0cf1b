"""Which execution an attempt belongs to: when that is asked, and what it leaves in lakeFS."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import RESPONSE_SECONDS, FaultWorld

from perago.adapters.memory.planned_faults import CrashAfter, Refuse
from perago.app.attempt.run_attempt import AttemptReport
from perago.domain.attempt import AttemptStatus
from perago.domain.publication_policy import PolicySetting
from perago.ports.errors import AccessDeniedError

CREATE_TAG = "tags.create"


def _reason(report: AttemptReport | None) -> str:
    assert report is not None
    assert report.update is not None
    return str(report.update.reason)


async def _next_attempt(world: FaultWorld) -> None:
    world.clock.advance(RESPONSE_SECONDS + 1)
    await world.operator.workflows.decide(world.workflow)


@pytest.mark.parametrize(
    "policy", [PolicySetting.AUTO, PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE], ids=str
)
async def test_a_retry_without_a_fence_needs_no_tags(tmp_path: Path, policy: PolicySetting) -> None:
    world = FaultWorld(tmp_path, policy, fenced=False)
    await world.start()
    await world.attempt(world.worker([CrashAfter("commits.commit")]))
    await _next_attempt(world)

    no_right = Refuse(CREATE_TAG, AccessDeniedError("fs:CreateTag"))
    report = await world.attempt(world.worker([no_right]))

    assert report is not None
    assert report.error is None, report.error
    calls = world.workers[-1].calls
    assert [name for name in calls if name.startswith("tags.")] == []
    assert world.repository.tags() == {}


@pytest.mark.parametrize("retried", [False, True], ids=["first attempt", "retry"])
async def test_a_branch_as_input_is_refused_before_anything_is_written(
    tmp_path: Path, *, retried: bool
) -> None:
    world = FaultWorld(tmp_path, PolicySetting.AUTO)
    await world.start(world.workspace(ref="main"))
    if retried:
        await world.attempt(world.worker([CrashAfter("repositories.read")]))
        await _next_attempt(world)

    report = await world.attempt(world.worker())

    assert "workspace ref main is not a commit id" in _reason(report)
    assert report is not None
    assert report.update is not None
    assert report.update.status is AttemptStatus.FAILED
    assert world.repository.tags() == {}
    calls = world.workers[-1].calls
    assert calls["branches.create"] == 0, "no canary"
    assert calls["tags.create"] == 0, "no mark"
