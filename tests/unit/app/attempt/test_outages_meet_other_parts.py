"""An outage while an attempt has a checkpoint, or is drained: nothing is spent."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, final

import pytest
from tests.unit.app.attempt.attempt_harness import (
    AttemptHarness,
    at_each_request,
)
from tests.unit.app.attempt.attempt_scene import assert_accepted

import perago
from perago import TaskFailed
from perago.app.attempt.ending import HANDED_BACK
from perago.app.attempt.patience import CONDUCTOR, StopOrder
from perago.domain.attempt import AttemptStatus
from perago.domain.hand_back import Cause
from perago.domain.policy import PolicySetting
from perago.ports.task_body import BodyStopped
from perago.testing.fault_injector import FaultInjector
from perago.testing.faults import ANY_CALL, Moment, Outage, Side

Answer = TypeVar("Answer")
OUTAGE_SECONDS = 20.0


def _checkpoint_and_fail_once(workspace: Path, run: int) -> None:
    """Keep something, fail, and go on from it in the next run."""
    (workspace / "out.txt").write_text(f"new {run}")
    (workspace / f"only-{run}.txt").write_text("of this run")
    (workspace / "old.txt").unlink()
    attempt = perago.current_attempt()
    if run == 1:
        attempt.checkpoint(workspace, note=run)
        raise TaskFailed("once")
    assert attempt.resumed_from is not None
    names = sorted(path.name for path in attempt.resumed_from.path.iterdir())
    assert names == ["kept.txt", "only-1.txt", "out.txt"]


@pytest.mark.scale
@pytest.mark.parametrize("side", Side)
async def test_an_outage_at_any_call_of_an_attempt_with_a_checkpoint_spends_nothing(
    tmp_path: Path, side: Side
) -> None:
    def harness_in(name: str) -> AttemptHarness:
        body = _checkpoint_and_fail_once
        return AttemptHarness(tmp_path / name, PolicySetting.SETTLED, body=body)

    healthy = harness_in("healthy")
    await healthy.start()
    await healthy.attempt(healthy.worker())
    await healthy.attempt(healthy.worker())
    await assert_accepted(healthy)
    for nth in range(2, healthy.requests(1).total() + 1):
        harness = harness_in(str(nth))
        await harness.start()
        await harness.attempt(harness.worker())
        outage = Outage(Moment(ANY_CALL, side, nth=nth), OUTAGE_SECONDS)
        await harness.attempt(harness.worker([outage]))
        rows = [(row.snapshot.status, row.reason) for row in (await harness.read()).attempts]
        assert (len(rows), harness.runs) == (2, 2), (nth, harness.requests(1), rows)
        await assert_accepted(harness)


@final
class DrainInTheWait(StopOrder):
    """The grace of a drain is over as soon as an attempt waits for a service."""

    def __init__(self, process: FaultInjector) -> None:
        self._process = process

    async def before_end_of(self, work: Awaitable[Answer]) -> Answer | BodyStopped:
        """The answer, until the service is away."""
        waiting = asyncio.ensure_future(work)
        if self._process.outages.until:
            waiting.cancel()
            return BodyStopped("worker draining", Cause.DRAIN)
        return await waiting


@pytest.mark.scale
@pytest.mark.parametrize("side", Side)
async def test_a_drain_in_any_wait_hands_the_row_back(tmp_path: Path, side: Side) -> None:
    """Also where nobody can tell whether the decision or the merge was made."""
    async for nth, harness in at_each_request(tmp_path, PolicySetting.SETTLED, first=2):
        worker = harness.worker([Outage(Moment(ANY_CALL, side, nth=nth), seconds=1e6)])
        order = DrainInTheWait(harness.workers[-1])
        drained = replace(worker, harness=replace(worker.harness, stop_order=order))
        report = await harness.report_of(drained)
        if CONDUCTOR in harness.workers[-1].outages.until:
            continue  # which cannot be told of any end
        why = (nth, harness.requests(), report.error)
        assert report.status in {HANDED_BACK, AttemptStatus.COMPLETED}, why
        await harness.attempt(harness.worker())
        rows = [(row.snapshot.status, row.reason) for row in (await harness.read()).attempts]
        assert len(rows) == 1, (why, rows)
        await assert_accepted(harness)
