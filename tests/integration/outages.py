"""One attempt of a real worker whose lakeFS, Conductor or block store leaves at a moment of it.

The function appends a line to a file, so that its runs are counted whatever becomes of them.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from tests.integration.outage_proxy import OutageProxy, outage_proxy
from tests.integration.worker_scene import WorkerScene, worker_scene

from perago.adapters.lakefs.configuration import RouteChoice
from perago.domain.attempt import WorkflowStatus
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import BranchName
from perago.domain.paths import FENCE_PATH
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer, lakefs_server, s3_store

Service: TypeAlias = Literal["lakeFS", "Conductor", "block store"]

RESPONSE_SECONDS = 180
# What a worker on a busy machine takes for everything else.
BUSY_SECONDS = 90.0
# A question that lakeFS does not answer is over after a minute (`answer_seconds`).
GIVEN_UP_SECONDS = 60.0
STAGING = r"/branches/perago-staging-[^ /]*"
LAKEFS_REQUESTS = {
    # With `stat` it asks for a signed address.
    "while downloading": r"GET [^ ]*/refs/[0-9a-f]{64}/objects(/stat)?\?[^ ]*path=data",
    "while uploading": rf"(POST|PUT) [^ ]*{STAGING}/(objects|staging)",
    "at the staged commit": rf"POST [^ ]*{STAGING}/commits",
    "at the decision": r"POST [^ ]*/tags",
    "at the merge": r"POST [^ ]*/refs/[^ ]*/merge/target",
}
# lakeFS keeps objects below `data`, and what it knows of them below `_lakefs`.
STORE_REQUESTS = {"while uploading": r"PUT /[^ ]*/data/"}
CONDUCTOR_REQUESTS = {"at the completion": r'"status": ?"COMPLETED"'}
BODY = """
with open({runs!r}, "a") as file:
    file.write("run\\n")
time.sleep(params.seconds)
(workspace / "out.txt").write_bytes(b"o" * {size})
"""
# Larger objects go past lakeFS where its block store signs addresses (route `auto`).
SMALL_BYTES, LARGE_BYTES = 100_000, 5 * 1024 * 1024
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
    """Which service goes away, when, and for how long; and the route of the bytes.

    A silent one takes requests and answers none; a service that is away refuses connections.
    """

    service: Service
    moment: str
    seconds: float
    route: RouteChoice = RouteChoice.AUTO
    silent: bool = False

    def __str__(self) -> str:
        how = "silent " if self.silent else ""
        return f"{self.service} {how}{self.seconds:.0f} s {self.moment} ({self.route})"

    @property
    def end_seconds_max(self) -> float:
        """How long after its return the workflow may take; a silent request is given up late."""
        return BUSY_SECONDS + (GIVEN_UP_SECONDS if self.silent else 0.0)

    def begin(self, victim: OutageProxy) -> None:
        """Let the service go away."""
        if self.silent:
            victim.fall_silent()
        else:
            victim.leave()

    @property
    def size(self) -> int:
        """Bytes of each object."""
        return LARGE_BYTES if self.service == "block store" else SMALL_BYTES


@dataclass(frozen=True, slots=True)
class Ways:
    """One way to each service; a block store that never leaves needs none."""

    lakefs: OutageProxy
    conductor: OutageProxy
    store: OutageProxy | None

    def leave_at(self, outage: Outage) -> asyncio.Event:
        """Let the victim leave at the request of a moment; set when it has left."""
        begins = asyncio.Event()
        victim = self.victim(outage)

        def leave() -> None:
            outage.begin(victim)
            begins.set()

        if self.store is not None and outage.moment in STORE_REQUESTS:
            self.store.when(STORE_REQUESTS[outage.moment], leave)
            return begins
        for way, moments in ((self.lakefs, LAKEFS_REQUESTS), (self.conductor, CONDUCTOR_REQUESTS)):
            if outage.moment in moments:
                way.when(moments[outage.moment], leave)
        return begins

    def victim(self, outage: Outage) -> OutageProxy:
        """The way that is closed."""
        if outage.service == "block store":
            assert self.store is not None
            return self.store
        return self.lakefs if outage.service == "lakeFS" else self.conductor


@dataclass(frozen=True, slots=True)
class Survived:
    """What an outage cost: runs, polls of each row, and seconds after the service came back.

    `waited` has what the attempt waited for: nothing, where it needs nothing of the service then.
    """

    outage: Outage
    status: WorkflowStatus
    runs: int
    polls: tuple[int, ...]
    seconds_after: float
    reasons: tuple[str | None, ...]
    waited: tuple[str, ...]

    @property
    def cost_nothing(self) -> bool:
        """Whether the function ran once, and one row was handed out once."""
        return self.status is WorkflowStatus.COMPLETED and (self.runs, self.polls) == (1, (1,))


async def survive(scene: WorkerScene, store: OutageProxy | None, outage: Outage) -> Survived:
    """Run one attempt through an outage."""
    branch = await _fenced_branch(scene, outage.size)
    runs = scene.folder / scene.conductor.unique("runs")
    body = BODY.format(runs=str(runs), size=outage.size)
    module = await scene.declare(body, workspace=True, response=RESPONSE_SECONDS)
    on_lakefs, on_conductor = scene.servers
    async with (
        outage_proxy(on_lakefs.endpoint) as to_lakefs,
        outage_proxy(on_conductor.endpoint) as to_conductor,
    ):
        ways = Ways(to_lakefs, to_conductor, store)
        more = {
            "LAKECTL_SERVER_ENDPOINT_URL": to_lakefs.endpoint,
            "CONDUCTOR_SERVER_URL": f"{to_conductor.endpoint}/api",
            "PERAGO_TRANSFER_ROUTE": str(outage.route),
        }
        async with scene.polling_worker([module], root=None, **more) as worker:
            begins = ways.leave_at(outage)
            head = await scene.lakefs.branches.head(scene.repository, branch)
            seconds = outage.seconds + 5 if outage.moment == DURING else 0.5
            workflow = await scene.start(module, branch=branch, ref=head.commit, seconds=seconds)
            if outage.moment in {DURING, AT_ITS_END}:
                await written(runs)
                outage.begin(ways.victim(outage))
                begins.set()
            async with asyncio.timeout(60):
                await begins.wait()
            await asyncio.sleep(outage.seconds)
            await ways.victim(outage).come_back()
            back = time.monotonic()
            record = await scene.ended(workflow, seconds_max=outage.end_seconds_max)
            after = time.monotonic() - back
            assert worker.process.returncode is None, worker.screen
            waits = [line for line in worker.events("attempt waited") if line["lasted"]]
    rows = record.attempts
    return Survived(
        outage,
        record.status,
        runs=len(runs.read_text(encoding="utf-8").splitlines()),
        polls=tuple(row.snapshot.poll_count for row in rows),
        seconds_after=after,
        reasons=tuple(row.reason for row in rows),
        waited=tuple(f"{line['waited_for']} {line['waited_seconds']:.1f} s" for line in waits),
    )


@asynccontextmanager
async def _scene_of(
    scene: WorkerScene, outage: Outage
) -> AsyncGenerator[tuple[WorkerScene, OutageProxy | None]]:
    """The scene, or one whose lakeFS has a block store of its own that can go away."""
    if outage.service != "block store":
        yield scene, None
        return
    async with lakefs_on_a_store() as (lakefs, way):
        servers = lakefs, scene.servers[1]
        async with worker_scene(servers, scene.folder) as opened:
            yield opened, way


@asynccontextmanager
async def lakefs_on_a_store() -> AsyncGenerator[tuple[LakefsServer, OutageProxy]]:
    """A lakeFS whose block store can go away, for it and for workers."""
    async with AsyncExitStack() as stack:
        # In a thread, because lakeFS may ask for its store through this loop before it is ready.
        kept = await asyncio.to_thread(stack.enter_context, s3_store())
        way = await stack.enter_async_context(outage_proxy(kept.endpoint))
        server = lakefs_server(store=replace(kept, endpoint=way.endpoint))
        yield await asyncio.to_thread(stack.enter_context, server), way


async def survive_all(scene: WorkerScene, outages: Sequence[Outage]) -> list[Survived]:
    """Each on a branch and a worker of its own, side by side: most of their time is waiting."""
    async with AsyncExitStack() as stack:
        scenes = [await stack.enter_async_context(_scene_of(scene, each)) for each in outages]
        survived = await asyncio.gather(
            *(survive(*opened, each) for opened, each in zip(scenes, outages, strict=True))
        )
    for each in survived:
        waited = ", ".join(each.waited) or "nothing"
        after = f"{each.seconds_after:.1f} s after its return"
        print(f"{each.outage}: {after}; waited for {waited}")  # noqa: T201 - the table's figures
    return survived


async def written(path: Path) -> None:
    """Wait until a task function has made its file."""
    async with asyncio.timeout(60):
        while not os.path.exists(path):  # noqa: ASYNC110, ASYNC240, PTH110 - written elsewhere
            await asyncio.sleep(0.02)


async def _fenced_branch(scene: WorkerScene, size: int) -> BranchName:
    """A target of its own, because the attempts run side by side."""
    branch = BranchName(scene.conductor.unique("target"))
    head = await scene.lakefs.branches.head(scene.repository, MAIN)
    await scene.lakefs.branches.create(scene.repository, branch, head.commit)
    files = {FENCE_PATH: FENCE_FILE, "data/b.txt": b"b" * size}
    await scene.lakefs.commit_files(scene.repository, branch, files)
    return branch
