"""One attempt of a real worker whose lakeFS or Conductor goes away at a moment of the attempt.

The function appends a line to a file, so that its runs are counted whatever becomes of them.
"""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tests.contract.lakefs_under_test import MAIN
from tests.integration.outage_proxy import OutageProxy, outage_proxy
from tests.integration.worker_scene import WorkerScene

from perago.domain.attempt import WorkflowStatus
from perago.domain.fence import FENCE_FILE
from perago.domain.logical_execution import BranchName
from perago.domain.paths import FENCE_PATH

Service: TypeAlias = Literal["lakeFS", "Conductor"]

RESPONSE_SECONDS = 180
# What a worker on a busy machine takes for everything else.
BUSY_SECONDS = 90.0
STAGING = r"/branches/perago-staging-[^ /]*"
LAKEFS_REQUESTS = {
    "while downloading": r"GET [^ ]*/refs/[0-9a-f]{64}/objects\?[^ ]*path=data",
    "while uploading": rf"(POST|PUT) [^ ]*{STAGING}/(objects|staging)",
    "at the staged commit": rf"POST [^ ]*{STAGING}/commits",
    "at the decision": r"POST [^ ]*/tags",
    "at the merge": r"POST [^ ]*/refs/[^ ]*/merge/target",
}
CONDUCTOR_REQUESTS = {"at the completion": r'"status": ?"COMPLETED"'}
BODY = """
with open({runs!r}, "a") as file:
    file.write("run\\n")
time.sleep(params.seconds)
(workspace / "out.txt").write_text("out")
"""
DURING, AT_ITS_END = "during the function", "at its end"
MOMENTS = (
    "while downloading",
    DURING,
    AT_ITS_END,
    "while uploading",
    "at the staged commit",
    "at the decision",
    "at the merge",
    "at the completion",
)


@dataclass(frozen=True, slots=True)
class Outage:
    """Which service goes away, when, and for how long."""

    service: Service
    moment: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.service} {self.seconds:.0f} s {self.moment}"


@dataclass(frozen=True, slots=True)
class Survived:
    """What an outage cost: runs, polls of each row, and seconds after the service came back."""

    outage: Outage
    status: WorkflowStatus
    runs: int
    polls: tuple[int, ...]
    seconds_after: float
    reasons: tuple[str | None, ...]

    @property
    def cost_nothing(self) -> bool:
        """Whether the function ran once, and one row was handed out once."""
        return self.status is WorkflowStatus.COMPLETED and (self.runs, self.polls) == (1, (1,))


async def survive(scene: WorkerScene, outage: Outage) -> Survived:
    """Run one attempt through an outage."""
    branch = await _fenced_branch(scene)
    runs = scene.folder / scene.conductor.unique("runs")
    body = BODY.format(runs=str(runs))
    module = await scene.declare(body, workspace=True, response=RESPONSE_SECONDS)
    lakefs_server, conductor_server = scene.servers
    async with (
        outage_proxy(lakefs_server.endpoint) as to_lakefs,
        outage_proxy(conductor_server.endpoint) as to_conductor,
    ):
        more = {
            "LAKECTL_SERVER_ENDPOINT_URL": to_lakefs.endpoint,
            "CONDUCTOR_SERVER_URL": f"{to_conductor.endpoint}/api",
        }
        async with scene.polling_worker([module], root=None, **more) as worker:
            victim = to_lakefs if outage.service == "lakeFS" else to_conductor
            begins = _leave_at(outage, victim, to_lakefs, to_conductor)
            head = await scene.lakefs.branches.head(scene.repository, branch)
            seconds = outage.seconds + 5 if outage.moment == DURING else 0.5
            workflow = await scene.start(module, branch=branch, ref=head.commit, seconds=seconds)
            if outage.moment in {DURING, AT_ITS_END}:
                await _written(runs)
                victim.leave()
                begins.set()
            async with asyncio.timeout(60):
                await begins.wait()
            await asyncio.sleep(outage.seconds)
            await victim.come_back()
            back = time.monotonic()
            record = await scene.ended(workflow, seconds_max=BUSY_SECONDS)
            after = time.monotonic() - back
            assert worker.process.returncode is None, worker.screen
    rows = record.attempts
    return Survived(
        outage,
        record.status,
        runs=len(runs.read_text(encoding="utf-8").splitlines()),
        polls=tuple(row.snapshot.poll_count for row in rows),
        seconds_after=after,
        reasons=tuple(row.reason for row in rows),
    )


def _leave_at(
    outage: Outage, victim: OutageProxy, to_lakefs: OutageProxy, to_conductor: OutageProxy
) -> asyncio.Event:
    """Let the victim leave at the request of a moment; set when it has left."""
    begins = asyncio.Event()

    def leave() -> None:
        victim.leave()
        begins.set()

    for proxy, moments in ((to_lakefs, LAKEFS_REQUESTS), (to_conductor, CONDUCTOR_REQUESTS)):
        if outage.moment in moments:
            proxy.when(moments[outage.moment], leave)
    return begins


async def survive_all(scene: WorkerScene, outages: list[Outage]) -> list[Survived]:
    """Each on a branch and a worker of its own, side by side: most of their time is waiting."""
    survived = await asyncio.gather(*(survive(scene, outage) for outage in outages))
    for each in survived:
        print(f"{each.outage}: {each.seconds_after:.1f} s after its return")  # noqa: T201
    return survived


async def _written(path: Path) -> None:
    async with asyncio.timeout(60):
        while not os.path.exists(path):  # noqa: ASYNC110, ASYNC240, PTH110 - written elsewhere
            await asyncio.sleep(0.02)


async def _fenced_branch(scene: WorkerScene) -> BranchName:
    """A target of its own, because the attempts run side by side."""
    branch = BranchName(scene.conductor.unique("target"))
    head = await scene.lakefs.branches.head(scene.repository, MAIN)
    await scene.lakefs.branches.create(scene.repository, branch, head.commit)
    files = {FENCE_PATH: FENCE_FILE, "data/b.txt": b"b" * 100_000}
    await scene.lakefs.commit_files(scene.repository, branch, files)
    return branch
