"""A pass keeps a run that people may look at or a finish may publish, and removes the others."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_scene import TASK
from tests.unit.app.gc.gc_scene import AT_ONCE, DAY, HOUR, collect
from tests.unit.app.runs.run_harness import FINISH, RunHarness

from perago.adapters.memory.conductor_server import MemoryConductor
from perago.app.gc.judging import Judged
from perago.domain.retention import RetentionTimes
from perago.domain.run import BASE_TAG_PREFIX
from perago.ports.errors import RequestRefusedError
from perago.testing.fault_injector import ProcessDied
from perago.testing.faults import Fault, always, crash, lose_answer, refuse

TIMES = RetentionTimes()


def names_of(harness: RunHarness) -> list[str]:
    """The run branches, then the base tags that are there."""
    branches = {
        name for name in harness.repository.branch_names() if name.startswith("perago-run-")
    }
    tags = {name for name in harness.repository.tags() if name.startswith(BASE_TAG_PREFIX)}
    return [*sorted(branches), *sorted(tags)]


async def passed(
    harness: RunHarness, times: RetentionTimes = TIMES, *faults: Fault
) -> dict[str, Judged]:
    """One pass; what it judged about runs."""
    judged = await collect(harness, times=times, faults=faults)
    return {each.name: each for each in judged if each.kind in {"run", "base of a run"}}


async def held_harness(tmp_path: Path, *, until: str = FINISH, ended: bool = True) -> RunHarness:
    """A run before its finish; its workflow has ended."""
    harness = RunHarness(tmp_path)
    await harness.start()
    await harness.until(until)
    assert len(names_of(harness)) == 2
    if ended:
        await harness.operator.workflows.terminate(harness.workflow, "audit failed")
    return harness


async def test_a_run_is_kept_while_its_workflow_goes_on(tmp_path: Path) -> None:
    harness = await held_harness(tmp_path, ended=False)
    harness.clock.advance(30 * DAY)
    judged = await passed(harness, AT_ONCE)
    assert {each.reason for each in judged.values()} == {"its workflow is not terminal"}
    assert len(names_of(harness)) == 2
    await harness.until(None)
    assert harness.repository.files()["data/step-2"] == b"made", "and its finish publishes it"


async def test_a_run_outlives_its_workflow_by_the_time_to_live(tmp_path: Path) -> None:
    harness = await held_harness(tmp_path)
    harness.clock.advance(7 * DAY - HOUR)
    (young, _) = (await passed(harness)).values()
    assert young.reason.startswith(
        "its workflow is terminal, but it is younger than 7 days; it goes"
    )
    harness.clock.advance(2 * HOUR)
    await collect(harness, times=TIMES, dry_run=True)
    assert len(names_of(harness)) == 2, "a dry run removes nothing"
    assert all(each.removed for each in (await passed(harness)).values())
    assert names_of(harness) == []
    assert harness.repository.files().keys() & {"data/step-1", "data/step-2"} == set()


async def test_the_tag_goes_last(tmp_path: Path) -> None:
    """A branch without its base would tell nobody what it changes."""
    harness = await held_harness(tmp_path)
    harness.clock.advance(8 * DAY)
    await collect(harness, times=replace(TIMES, run=timedelta(days=30)))  # what its tasks left
    run, base = names_of(harness)
    busy = refuse("branches.delete", RequestRefusedError("busy"))
    judged = await passed(harness, TIMES, busy)
    assert "busy" in str(judged[run].error)
    assert judged[base].reason == "its run branch could not be removed"
    with pytest.raises(ProcessDied):
        await passed(harness, TIMES, crash(before="tags.delete"))
    assert names_of(harness) == [base]
    await passed(harness)
    assert names_of(harness) == []


async def test_a_workflow_that_conductor_cannot_tell_of_keeps_its_run(tmp_path: Path) -> None:
    harness = await held_harness(tmp_path)
    await passed(harness, AT_ONCE, always(lose_answer("queue.read_workflow")))
    assert len(names_of(harness)) == 2


async def test_a_decided_run_stays_until_its_decision_goes(tmp_path: Path) -> None:
    harness = await held_harness(tmp_path, ended=False)
    await harness.attempt(harness.worker([crash(after="tags.create")]))
    await harness.operator.workflows.terminate(harness.workflow, "too slow")
    at_once = replace(TIMES, run=timedelta(0))
    (run, base) = (await passed(harness, at_once)).values()
    assert run.reason == base.reason == "a decision needs it and is removed first"
    assert len(names_of(harness)) == 2

    harness.clock.advance(8 * DAY)
    await passed(harness, at_once)
    assert names_of(harness) == [], "in the pass in which its decision goes"


async def test_a_forgotten_run_is_as_old_as_its_newest_publication(tmp_path: Path) -> None:
    harness = await held_harness(tmp_path)
    harness.conductor = MemoryConductor(harness.clock)
    harness.clock.advance(6 * DAY)
    await passed(harness)
    assert len(names_of(harness)) == 2
    harness.clock.advance(2 * DAY)
    await passed(harness)
    assert names_of(harness) == []


async def test_a_forgotten_run_without_a_publication_has_no_age(tmp_path: Path) -> None:
    """Its head is its base, which may be years old however young the run is."""
    harness = await held_harness(tmp_path, until=TASK)
    harness.conductor = MemoryConductor(harness.clock)
    harness.clock.advance(400 * DAY)
    (run, _) = (await passed(harness)).values()
    assert "its age is unknown" in run.reason
    await passed(harness, AT_ONCE)
    assert names_of(harness) == []


async def test_the_base_of_a_finished_run_goes_with_its_workflow(tmp_path: Path) -> None:
    harness = await held_harness(tmp_path, ended=False)
    await harness.until(None)
    harness.clock.advance(8 * DAY)
    await passed(harness)
    assert names_of(harness) == []
    assert harness.repository.files()["data/step-2"] == b"made"


async def test_the_base_of_a_finished_run_goes_though_its_workflow_is_forgotten(
    tmp_path: Path,
) -> None:
    """Many a Conductor removes workflows earlier; a tag for each run would stay for ever."""
    harness = await held_harness(tmp_path, ended=False)
    await harness.until(None)
    harness.conductor = MemoryConductor(harness.clock)
    harness.clock.advance(6 * DAY)
    await passed(harness)
    assert len(names_of(harness)) == 1
    harness.clock.advance(2 * DAY)
    await passed(harness)
    assert names_of(harness) == []


async def test_a_branch_that_is_no_run_stays(tmp_path: Path) -> None:
    harness = await held_harness(tmp_path)
    harness.repository.branch("perago-run-of-somebody-else")
    judged = await passed(harness, AT_ONCE)
    assert not judged["perago-run-of-somebody-else"].removed
    assert names_of(harness) == ["perago-run-of-somebody-else"]
