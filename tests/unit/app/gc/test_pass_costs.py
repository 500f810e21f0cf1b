"""What one pass asks for, counted: a worker runs one an hour over the decisions of a week."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.gc.gc_scene import DAY, collect, decisions

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.policy import PolicySetting
from perago.domain.retention import RetentionTimes

pytestmark = pytest.mark.scale
WORKFLOWS, PER_WORKFLOW = 2000, 5
DECISIONS = WORKFLOWS * PER_WORKFLOW


@pytest.fixture
async def harness(tmp_path: Path) -> AttemptHarness:
    """2,000 ended workflows of five decisions each; their branches went with their attempts."""
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED)
    for workflow in range(WORKFLOWS):
        await harness.start()
        key = f"{harness.workflow}/edit/0"
        commit = harness.repository.commit({}, metadata={LOGICAL_TASK_KEY: key})
        for number in range(PER_WORKFLOW):
            name = f"perago-settled-{harness.workflow}-{workflow:032x}-{number:032x}"
            harness.repository.tag(name, commit)
        await harness.operator.workflows.terminate(harness.workflow, "over")
    return harness


async def test_one_pass_over_ten_thousand_kept_decisions_asks_once_for_each_workflow(
    harness: AttemptHarness,
) -> None:
    judged = await collect(harness, times=RetentionTimes())
    calls = harness.workers[-1].calls
    assert len(judged) == len(decisions(harness)) == DECISIONS
    assert calls["queue.read_workflow"] == WORKFLOWS
    assert calls["commits.read"] == 0
    assert calls.total() <= 0.3 * DECISIONS
    assert calls.total() <= WORKFLOWS + 17, "and the pages of eight listings"


async def test_workflows_that_conductor_forgot_cost_one_read_more_and_not_one_a_decision(
    harness: AttemptHarness,
) -> None:
    harness.conductor = MemoryConductor(harness.clock)
    await collect(harness, times=RetentionTimes())
    calls = harness.workers[-1].calls
    assert len(decisions(harness)) == DECISIONS
    assert calls["commits.read"] == WORKFLOWS


async def test_what_goes_costs_one_deletion_each(harness: AttemptHarness) -> None:
    harness.clock.advance(8 * DAY)
    await collect(harness, times=RetentionTimes())
    calls = harness.workers[-1].calls
    assert decisions(harness) == []
    assert calls.total() <= DECISIONS + WORKFLOWS + 17
