"""Checkpoints on real servers: hosts die by SIGKILL, and other hosts go on from what was kept."""

import asyncio
import signal
from pathlib import Path

import pytest
from tests.integration.checkpoint_kills import (
    BASE_BYTES,
    PART_BYTES,
    STEP_SECONDS,
    Plan,
    Survived,
    survive_host_kills,
)
from tests.integration.worker_scene import worker_scene

from perago.domain.fence import FENCE_FILE
from perago.domain.paths import FENCE_PATH
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ConductorServer, LakefsServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]

# A copy is safe when it has been uploaded and committed, and a step that was not kept is lost too.
UPLOAD_SECONDS_MAX = 2.0
AT_ONCE = 5


@pytest.fixture
def servers(
    lakefs_server: LakefsServer, conductor_server: ConductorServer
) -> tuple[LakefsServer, ConductorServer]:
    """Two real servers."""
    return lakefs_server, conductor_server


def check(survived: Survived, plan: Plan) -> None:
    """No kill cost more than an interval and an upload; only what changed has travelled."""
    assert len(survived.lost_seconds) <= plan.kills
    lost_max = plan.interval_seconds + STEP_SECONDS + UPLOAD_SECONDS_MAX
    assert max(survived.lost_seconds, default=0.0) <= lost_max, survived
    parts = survived.steps_run * PART_BYTES
    assert survived.bytes_uploaded <= survived.begun_anew * BASE_BYTES + parts, survived


@pytest.mark.timeout(300)
async def test_a_task_goes_on_on_other_hosts_after_two_kills(
    servers: tuple[LakefsServer, ConductorServer], tmp_path: Path
) -> None:
    plan = Plan(seconds=10, interval_seconds=1, kills=2, seed=3)
    async with worker_scene(servers, tmp_path) as scene:
        survived = await survive_host_kills(scene, plan)
    check(survived, plan)
    assert survived.begun_anew == 1, "every later attempt went on from a checkpoint"


@pytest.mark.timeout(300)
async def test_a_deploy_costs_a_long_function_no_row_and_at_most_one_interval(
    servers: tuple[LakefsServer, ConductorServer], tmp_path: Path
) -> None:
    """As docs/how-to/checkpoints.md says it: two deploys, and the function ends on a third host."""
    plan = Plan(seconds=10, interval_seconds=1, kills=2, seed=4, ends_by=signal.SIGTERM)
    async with worker_scene(servers, tmp_path) as scene:
        survived = await survive_host_kills(scene, plan)
    check(survived, plan)
    assert survived.begun_anew == 1
    assert survived.polls == (3,), "one row, handed back by each of the two drains"


DIES_ONCE = """
import os, signal
import perago
attempt = perago.current_attempt()
if attempt.resumed_from is None:
    (workspace / "state").write_text("kept")
    attempt.checkpoint(workspace / "state", note=7)
    os.kill(os.getpid(), signal.SIGKILL)
(workspace / "found").write_text((attempt.resumed_from.path / "state").read_text())
return Result(number=attempt.resumed_from.note)
"""


@pytest.mark.timeout(300)
async def test_the_copy_of_an_executor_that_was_killed_is_uploaded_before_the_retry(
    servers: tuple[LakefsServer, ConductorServer], tmp_path: Path
) -> None:
    async with worker_scene(servers, tmp_path) as scene:
        start = await scene.lakefs.commit_files(scene.repository, MAIN, {FENCE_PATH: FENCE_FILE})
        module = await scene.declare(DIES_ONCE, workspace=True)
        async with scene.polling_worker([module]):
            ended = await scene.ended(await scene.start(module, ref=start))
        assert ended.status == "COMPLETED", ended.reason
        assert [each.snapshot.status for each in ended.attempts] == ["FAILED", "COMPLETED"]
        assert ended.attempts[-1].output_data["result"] == {"number": 7}
        found = await scene.lakefs.objects.read(scene.repository, MAIN, "data/found")
        assert found == b"kept"


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_a_minute_of_work_survives_twenty_kills_at_random_moments(
    servers: tuple[LakefsServer, ConductorServer], tmp_path: Path
) -> None:
    plans = [Plan(seconds=60, interval_seconds=5, kills=2, seed=seed) for seed in range(10)]
    many = asyncio.Semaphore(AT_ONCE)
    done: list[Survived] = []

    async def one(plan: Plan) -> None:
        async with many, worker_scene(servers, tmp_path) as scene:
            survived = await survive_host_kills(scene, plan)
        check(survived, plan)
        done.append(survived)

    async with asyncio.TaskGroup() as group:
        for plan in plans:
            group.create_task(one(plan))
    lost = sorted(seconds for survived in done for seconds in survived.lost_seconds)
    steps = sum(survived.steps_run for survived in done)
    moved = sum(survived.bytes_uploaded for survived in done)
    print(f"{len(lost)} kills lost {lost} s; {steps} steps, {moved} bytes")  # noqa: T201 - figures
