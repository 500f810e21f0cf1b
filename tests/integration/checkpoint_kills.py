"""A long task function whose hosts are killed or drained, and which goes on elsewhere.

Each host is a worker with a root of its own. The function writes a line for each step that it does,
so what was done twice is counted and not guessed.
"""

import asyncio
import json
import random
import signal
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.worker_scene import RunningWorker, TaskModule, WorkerScene

from perago.domain.checkpoints import CHECKPOINT_BRANCH_PREFIX, CHECKPOINT_FOLDER
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import BranchName, CommitId
from perago.domain.paths import FENCE_PATH
from perago.testing.contract.lakefs_under_test import MAIN

STEP_SECONDS = 0.5
BASE_BYTES, PART_BYTES = 1_000_000, 10_000
# A killed worker's row is handed out again after this; heartbeats come at a third of it.
RESPONSE_SECONDS = 4
GRACE_SECONDS = 1
BODY = """
import json, os, shutil
import perago
attempt = perago.current_attempt()
state = workspace / "state"
state.mkdir()
first, found = 0, attempt.resumed_from
if found is not None:
    shutil.copytree(found.path, state, dirs_exist_ok=True)
    first = found.note["done"]
else:
    (state / "base").write_bytes(os.urandom({base}))
def say(what, number):
    with open({log!r} + str(params.number), "a") as log:
        log.write(json.dumps([what, number, time.time()]) + chr(10))
say("began", first)
for step in range(first, {steps}):
    time.sleep({step_seconds})
    (state / f"part-{{step:04d}}").write_bytes(os.urandom({part}))
    say("did", step)
    attempt.checkpoint(state, note={{"done": step + 1}})
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long the function runs, how often it keeps its state, and when its hosts die."""

    seconds: float
    interval_seconds: float
    kills: int
    seed: int
    ends_by: signal.Signals = signal.SIGKILL

    @property
    def steps(self) -> int:
        """How many steps the function has."""
        return round(self.seconds / STEP_SECONDS)


@dataclass(slots=True)
class Survived:
    """What one task did: seconds of work that each kill cost, steps that ran, bytes that moved.

    `polls` has one number for each row: how often it was handed out.
    """

    lost_seconds: list[float] = field(default_factory=list[float])
    steps_run: int = 0
    bytes_uploaded: int = 0
    begun_anew: int = 0
    polls: tuple[int, ...] = ()


async def declare_long_task(scene: WorkerScene, plan: Plan) -> tuple[TaskModule, CommitId]:
    """A task that keeps its state, and an input commit that has the fence."""
    start = await scene.lakefs.commit_files(
        scene.repository, MAIN, {FENCE_PATH: FENCE_FILE, "data/a.txt": b"a"}
    )
    body = BODY.format(
        base=BASE_BYTES,
        part=PART_BYTES,
        steps=plan.steps,
        step_seconds=STEP_SECONDS,
        log=str(scene.folder / "steps-"),
    )
    module = await scene.declare(body, workspace=True, response=RESPONSE_SECONDS)
    return module, start


async def survive_host_kills(scene: WorkerScene, plan: Plan) -> Survived:
    """Run one task whose hosts die at random moments; check what became of it."""
    module, start = await declare_long_task(scene, plan)
    branch = BranchName(scene.lakefs.unique_name("target"))
    await scene.lakefs.branches.create(scene.repository, branch, start)
    log = scene.folder / f"steps-{plan.seed}"
    workflow = await scene.start(module, branch=branch, ref=start, number=plan.seed)
    # At least one interval apart, so that each host has a checkpoint of its own to lose.
    chance = random.Random(plan.seed)  # noqa: S311 - moments, no secrets
    survived, hosts = Survived(), list[RunningWorker]()
    for _ in range(plan.kills):
        host = await _host(scene, module, plan, hosts)
        begun = await _begun(log, len(hosts))
        room = (plan.seconds - begun * STEP_SECONDS) / (plan.kills + 1)
        await asyncio.sleep(chance.uniform(0.1, 1.0) * max(room, 1.0))
        host.signal(plan.ends_by)
        await host.process.wait()
    await _host(scene, module, plan, hosts)
    ended = await scene.ended(workflow, seconds_max=plan.seconds * 2 + 60)
    assert ended.status == "COMPLETED", ended.reason
    survived.polls = tuple(row.snapshot.poll_count for row in ended.attempts)
    await hosts[-1].has("attempt ended")
    hosts[-1].process.kill()
    await hosts[-1].process.wait()
    _count(survived, log, hosts)
    await _check_target(scene, plan, branch)
    return survived


async def _host(
    scene: WorkerScene, module: TaskModule, plan: Plan, hosts: list[RunningWorker]
) -> RunningWorker:
    host = await scene.launch(
        [module],
        PERAGO_CHECKPOINT_INTERVAL=f"{plan.interval_seconds:g}s",
        PERAGO_SHUTDOWN_FORCE_KILL_AFTER=f"{GRACE_SECONDS}s",
    )
    hosts.append(host)
    return host


def _lines(log: Path) -> list[tuple[str, int, float]]:
    if not log.exists():
        return []
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()]


async def _begun(log: Path, times: int) -> int:
    """Wait until the function has begun so many times; the step it began with."""
    for _ in range(1200):
        begun = [number for what, number, _ in _lines(log) if what == "began"]
        if len(begun) >= times:
            return begun[-1]
        await asyncio.sleep(0.1)
    raise AssertionError(f"the function did not begin {times} times")


def _count(survived: Survived, log: Path, hosts: list[RunningWorker]) -> None:
    """What was done twice is what a kill cost."""
    done = 0
    for what, number, _ in _lines(log):
        if what == "did":
            survived.steps_run += 1
            done = number + 1
        elif done:
            survived.lost_seconds.append((done - number) * STEP_SECONDS)
        if what == "began" and number == 0:
            survived.begun_anew += 1
    uploads = [event for host in hosts for event in host.events("attempt checkpointed")]
    survived.bytes_uploaded = sum(int(event["bytes"]) for event in uploads)


async def _check_target(scene: WorkerScene, plan: Plan, branch: str) -> None:
    """All parts are published, no checkpoint is, and no checkpoint branch is left."""
    page = await scene.lakefs.objects.list_page(scene.repository, branch, prefix="")
    paths = [entry.path for entry in page.items]
    assert sum(path.startswith("data/state/part-") for path in paths) == plan.steps
    assert not any(path.startswith(CHECKPOINT_FOLDER) for path in paths)
    left = await scene.lakefs.branches.list_page(
        scene.repository, CHECKPOINT_BRANCH_PREFIX, show_hidden=True
    )
    assert left.items == ()
