"""Parents that are killed at random moments after a task function ended, and what must hold then.

Each death has a workflow and a branch of its own, under policy `settled`. All workers have one
root.
"""

import asyncio
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.integration.worker_scene import TaskModule, WorkerScene

from perago.domain.attempt import WorkflowStatus
from perago.domain.lakefs import BranchName
from perago.ports.conductor import WorkflowRecord

FUNCTION_SECONDS = 5
# As many as make the time from the end of the function to the decision a few tenths of a second.
FILES = 300
# Counted from when the outcome is on the disk, because a quick machine decides soon after that.
# Each fourth is counted from the end of the function, so that some die before it is there.
KILLED_WITHIN_SECONDS = 0.1
FROM_ITS_END = 4
# Far longer than the test waits: a row that goes on was handed back by the next worker.
RESPONSE_SECONDS = 600
BODY = """
run = os.urandom(8).hex()
beside = Path({beside!r})
with (beside / f"runs-{{params.number}}").open("a") as runs:
    runs.write(run + "\\n")
time.sleep(params.seconds)
(workspace / "a.txt").unlink()
for number in range({files}):
    (workspace / f"{{number}}.txt").write_text(run)
(beside / f"ended-{{params.number}}").touch()
"""


@dataclass(frozen=True, slots=True)
class Death:
    """One killed parent: after how many seconds, what was on the disk, and what came of it."""

    after_seconds: float
    kept: bool
    runs: int
    rows: int
    recovered: bool


def nothing(directory: Path) -> None:
    """Leave the directory as it is."""
    del directory


async def killed_after_the_function(
    scene: WorkerScene,
    *,
    kills: int,
    seed: int,
    between: Callable[[Path], None] = nothing,
) -> list[Death]:
    """Kill so many parents, each in an attempt of its own, and check what each came to."""
    lakefs, chance = scene.lakefs, random.Random(seed)  # noqa: S311 - a schedule, no secret
    commit = await lakefs.install_fence(scene.repository)
    body = BODY.format(beside=str(scene.folder), files=FILES)
    module = await scene.declare(body, workspace=True, response=RESPONSE_SECONDS)
    deaths: list[Death] = []
    for number in range(kills):
        branch = BranchName(f"own-{number}")
        await lakefs.branches.create(scene.repository, branch, commit)
        workflow = await scene.start(
            module,
            branch=branch,
            ref=commit,
            number=number,
            seconds=FUNCTION_SECONDS,
        )
        after = 0.0 if between is not nothing else chance.uniform(0, KILLED_WITHIN_SECONDS)
        from_its_end = number % FROM_ITS_END == FROM_ITS_END - 1
        kept = await _die(scene, module, number, after, from_its_end=from_its_end)
        for directory in _workspaces(scene).glob("task_id=*"):
            between(directory)
        async with scene.worker([module], root=scene.folder / "root") as worker:
            ended = await scene.ended(workflow)
            recovered = len(worker.events("attempt recovered")) > len(
                [each for each in deaths if each.recovered]
            )
            # Drained, because a poll that is cut off may take the next row with it.
            worker.signal(signal.SIGTERM)
            await worker.exit_code()
        runs = _runs(scene, number)
        deaths.append(Death(round(after, 3), kept, len(runs), len(ended.attempts), recovered))
        await _check(scene, ended, branch, runs)
        if kept and between is nothing:
            assert (len(runs), len(ended.attempts)) == (1, 1), deaths
    return deaths


async def _die(
    scene: WorkerScene, module: TaskModule, number: int, after: float, *, from_its_end: bool
) -> bool:
    """Let a parent run the function and kill it; whether an outcome was on the disk then."""
    async with scene.worker([module], root=scene.folder / "root") as worker:
        ended = scene.folder / f"ended-{number}"
        for _ in range(60_000):
            if ended.exists():
                break
            await asyncio.sleep(0.001)
        assert ended.exists(), worker.screen
        for _ in range(5_000):
            if from_its_end or _outcomes(scene):
                break
            await asyncio.sleep(0.001)
        await asyncio.sleep(after)
        worker.signal(signal.SIGKILL)
        await worker.exit_code()
    return bool(_outcomes(scene))


async def _check(
    scene: WorkerScene, ended: WorkflowRecord, branch: BranchName, runs: list[str]
) -> None:
    """The tree and the result are those of one run, and they are published once."""
    assert ended.status is WorkflowStatus.COMPLETED, ended.reason
    lakefs, repository = scene.lakefs, scene.repository
    walk = await lakefs.commits.first_parents(repository, branch, scene.start_commit, commits_max=9)
    published = walk.head.commit
    output = ended.attempts[-1].output_data
    workspace = output["workspace"]
    assert isinstance(workspace, dict)
    assert workspace["ref"] == published
    page = await lakefs.objects.list_page(repository, published, prefix="data/")
    assert {entry.path for entry in page.items} == {f"data/{n}.txt" for n in range(FILES)}
    checksums = {entry.checksum for entry in page.items}
    assert len(checksums) == 1, "files of two runs"
    content = await lakefs.objects.read(repository, published, "data/0.txt")
    assert content.decode() in runs


def _outcomes(scene: WorkerScene) -> list[Path]:
    return list(_workspaces(scene).glob(".perago-attempts/*.outcome"))


def _workspaces(scene: WorkerScene) -> Path:
    return scene.folder / "root" / "workspaces"


def _runs(scene: WorkerScene, number: int) -> list[str]:
    return (scene.folder / f"runs-{number}").read_text(encoding="utf-8").split()
