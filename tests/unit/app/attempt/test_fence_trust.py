"""What a process believes of a fence: proven by a canary, never by a server that is busy."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness, reason_of

from perago.adapters.memory.installations import RepositoryBuilder
from perago.app.attempt.complete import Recorded
from perago.app.fence.trust import DEAD_SECONDS, TRUSTED_SECONDS
from perago.domain.attempt import AttemptStatus
from perago.domain.fence import FENCE_FILE, FenceState
from perago.domain.lakefs import RepositoryId
from perago.domain.outcome import RefusedByHook, TooManyTries
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.ports.errors import UnavailableError
from perago.testing.faults import (
    Fault,
    answer,
    lose_answer,
    lose_request,
    meanwhile,
    refuse,
    zombie,
)

MERGE = "branches.merge"
REPOSITORY = RepositoryId("repo")

TROUBLES: list[Fault] = [
    lose_request(MERGE),
    lose_answer(MERGE),
    lose_request(MERGE, nth=2),
    answer(MERGE, TooManyTries("busy")),
    answer(MERGE, TooManyTries("busy"), nth=2),
    refuse(MERGE, UnavailableError("not reached")),
    lose_request("branches.create"),
    lose_answer("commits.commit"),
    lose_request("branches.delete"),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=str)
async def test_a_canary_without_an_answer_proves_nothing_and_is_asked_again(
    tmp_path: Path, trouble: Fault
) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.AUTO).started()
    worker = harness.worker([trouble])
    trust = worker.harness.lakefs.trust

    report = await harness.report_of(worker)

    assert report.update is not None
    if report.update.status is AttemptStatus.FAILED:
        assert "PRG-F022" not in reason_of(report)
        assert "PRG-L008" in reason_of(report) or "PRG-L009" in reason_of(report)
    assert await trust.proven(REPOSITORY, harness.input) is FenceState.TRUSTED


async def test_another_hooks_refusal_is_said_as_such(tmp_path: Path) -> None:
    """The fence may well work, but nothing can be published here, and the server said why."""
    harness = await AttemptHarness(tmp_path, PolicySetting.AUTO).started()
    refused = answer(MERGE, RefusedByHook("needs a ticket"))
    report = await harness.report(refused)
    assert "needs a ticket" in reason_of(report)
    assert harness.runs == 0


async def test_two_attempts_at_once_need_one_canary(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    worker = harness.worker([zombie(before=MERGE)])
    trust, handle = worker.harness.lakefs.trust, harness.workers[0]
    first = asyncio.ensure_future(trust.proven(REPOSITORY, harness.input))
    second = asyncio.ensure_future(trust.proven(REPOSITORY, harness.input))
    while not handle.waits_for:  # noqa: ASYNC110 - driven by hand
        await asyncio.sleep(0)
    handle.release()
    assert set(await asyncio.gather(first, second)) == {FenceState.TRUSTED}
    assert handle.calls[MERGE] == 2


async def test_a_verdict_is_kept_for_a_while(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    worker = harness.worker()
    trust = worker.harness.lakefs.trust
    assert await trust.proven(REPOSITORY, harness.input) is FenceState.TRUSTED
    harness.clock.advance(TRUSTED_SECONDS - 1)
    assert await trust.proven(REPOSITORY, harness.input) is FenceState.TRUSTED
    assert harness.workers[0].calls[MERGE] == 2


async def test_two_hundred_repositories_of_one_server_need_one_canary(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    worker = harness.worker()
    trust, handle = worker.harness.lakefs.trust, harness.workers[0]
    assert await trust.proven(REPOSITORY, harness.input) is FenceState.TRUSTED
    asked = sum(handle.calls.values())
    for number in range(199):
        other = RepositoryId(f"song-{number}")
        assert await trust.proven(other, harness.input) is FenceState.TRUSTED
    assert sum(handle.calls.values()) == asked


async def test_hooks_that_are_switched_on_are_found_without_a_restart(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    harness.lakefs.actions_enabled = False
    await harness.start()
    worker = harness.worker()
    refused = await harness.report_of(worker)
    assert "PRG-F022" in reason_of(refused)
    harness.lakefs.actions_enabled = True
    harness.clock.advance(DEAD_SECONDS - 1)
    still = await harness.report_of(worker)
    assert still.error is not None, "one canary for all the attempts that fail meanwhile"
    harness.clock.advance(1)

    report = await harness.report_of(worker)

    assert report.error is None


async def test_hooks_that_are_switched_off_are_noticed_before_anything_is_overwritten(
    tmp_path: Path,
) -> None:
    """Without another look only a publication on a wrong parent would tell."""
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    trust = harness.worker().harness.lakefs.trust
    assert await trust.proven(REPOSITORY, harness.input) is FenceState.TRUSTED
    harness.lakefs.actions_enabled = False
    harness.clock.advance(TRUSTED_SECONDS)
    assert await trust.proven(REPOSITORY, harness.input) is FenceState.DEAD


async def test_a_fence_that_was_seen_not_to_run_is_distrusted_until_the_process_ends(
    tmp_path: Path,
) -> None:
    """A canary cannot give back what a publication on a wrong parent has disproved."""
    harness = await AttemptHarness(tmp_path, PolicySetting.AUTO).started()
    worker = harness.worker()
    trust = worker.harness.lakefs.trust
    assert await trust.proven(REPOSITORY, harness.input) is FenceState.TRUSTED
    trust.distrust(REPOSITORY)
    harness.clock.advance(TRUSTED_SECONDS)
    assert await trust.proven(REPOSITORY, harness.input) is FenceState.DISTRUSTED
    assert harness.workers[0].calls[MERGE] == 2
    report = await harness.report_of(worker)
    reason = reason_of(report)
    assert "PRG-F023" in reason
    assert "`perago fence verify repo main`" in reason
    assert "restart" in reason


async def test_what_one_repository_has_disproved_is_proven_anew_for_the_others(
    tmp_path: Path,
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    trust = harness.worker().harness.lakefs.trust
    elsewhere = RepositoryBuilder(harness.lakefs, "elsewhere")
    other = elsewhere.commit({FENCE_PATH: FENCE_FILE})
    assert await trust.proven(elsewhere.id, other) is FenceState.TRUSTED
    harness.lakefs.actions_enabled = False
    trust.distrust(REPOSITORY)
    assert await trust.proven(elsewhere.id, other) is FenceState.DEAD


async def test_distrust_is_not_undone_by_a_canary_under_way(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    distrust = meanwhile(lambda: trust.distrust(REPOSITORY), after=MERGE, nth=2)
    trust = harness.worker([distrust]).harness.lakefs.trust
    assert await trust.proven(REPOSITORY, harness.input) is FenceState.DISTRUSTED


async def test_a_canary_leaves_no_branches(tmp_path: Path) -> None:
    harness = await AttemptHarness(tmp_path, PolicySetting.AUTO).started()
    report = await harness.report()
    assert report.recorded is Recorded.RECORDED
    assert harness.repository.branch_names() == {"main"}


async def test_each_version_of_the_fence_is_proven(tmp_path: Path) -> None:
    """What runs one script may stumble over another."""
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    trust = harness.worker().harness.lakefs.trust
    assert await trust.proven(REPOSITORY, harness.input, 2) is FenceState.TRUSTED
    harness.lakefs.actions_enabled = False
    assert await trust.proven(REPOSITORY, harness.input, 1) is FenceState.DEAD
    assert await trust.proven(REPOSITORY, harness.input, 2) is FenceState.TRUSTED
