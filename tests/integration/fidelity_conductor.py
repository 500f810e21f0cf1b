"""The Conductor machine: one history on the in-memory Conductor and on a real one.

Ids go by their number in order of sight, times by how often they have changed. The real server
applies some things later and by itself (joins, loops, children): where the two differ, both are
told to decide until they agree, and a difference that stays for seconds is one. What a clock
decides has an operation of its own, which waits on both; nothing else comes near a deadline.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests import redelivery
from tests.integration.fidelity import (
    Operation,
    Operations,
    Run,
    outcome_of,
)
from tests.integration.fidelity_conductor_shapes import (
    QUICK,
    SHAPES,
    TIMED,
)
from tests.integration.fidelity_conductor_side import UNKNOWN, Side

from perago.domain.attempt import AttemptStatus
from perago.ports.conductor import SENDABLE, HandBack
from perago.ports.errors import RequestRefusedError

DOMAIN = "elsewhere"
SETTLES_SECONDS = 10.0
PAUSE_SECONDS = 0.1
# Past every deadline of the timed shapes; a busy machine is late, never early.
DEADLINE_SECONDS = 1.6
TIME_PASSES_AT = 3  # in the middle, where hypothesis does not look first
# Memory's clock stands still; on a server time passes between two requests.
TICK_SECONDS = 0.01


operations = Operations[Side]()
workflows = st.integers(0, 6)
holders = st.integers(0, 6)
types = st.sampled_from(("again", "once", "twin", "unknown"))
domains = st.sampled_from((None, None, None, DOMAIN))
cases = st.sampled_from(("a", "b", None))
workers = st.sampled_from(("w1", "w2"))


@operations.add(weight=3, shape=st.sampled_from(tuple(SHAPES)), case=cases, domain=domains)
async def start(side: Side, shape: str, case: str | None, domain: str | None) -> object:
    return await side.start(shape, case, domain)


@operations.add(version=st.sampled_from((1, 2)))
async def start_unknown(side: Side, version: int) -> object:
    name = await side.define("one") if version == 2 else "nothing_of_that_name"
    return await side.harness.workflows.start(name, {}, version=version)


@operations.add(weight=8, workflow=workflows, row=st.integers(0, 2), worker=workers)
async def take(side: Side, workflow: int, row: int, worker: str) -> object:
    """Poll where something waits; the workflow tells."""
    workflow_id = side.touch(workflow)
    seen = await side.harness.queue.read_workflow(workflow_id)
    waiting = [
        each
        for each in (() if seen is None else seen.tasks)
        if each.status is AttemptStatus.SCHEDULED and side.is_of_workers(each)
    ]
    if not waiting:
        return "nothing waits"
    of = waiting[row % len(waiting)].task_type.removeprefix(f"{side.stem}_")
    return await side.poll(of, worker, side.domains.get(workflow_id))


@operations.add(of=types, worker=workers, domain=domains)
async def poll(side: Side, of: str, worker: str, domain: str | None) -> object:
    return await side.poll(of, worker, domain)


@operations.add(
    weight=8,
    holder=holders,
    status=st.sampled_from((AttemptStatus.COMPLETED, *sorted(SENDABLE))),
    worker=workers,
    x=st.sampled_from((1, None, "text")),
)
async def finish(side: Side, holder: int, status: AttemptStatus, worker: str, x: object) -> object:
    attempt = side.holder(holder)
    if attempt is not None:
        await side.finish(attempt, status, worker, x)
    return attempt is None


@operations.add(holder=holders, worker=workers)
async def heartbeat(side: Side, holder: int, worker: str) -> object:
    attempt = side.holder(holder)
    if attempt is not None:
        await side.harness.queue.extend_lease(attempt.snapshot, worker)
    return attempt is None


@operations.add(holder=holders)
async def release(side: Side, holder: int) -> object:
    attempt = side.holder(holder)
    if attempt is not None:
        await redelivery.release(side.harness.queue, attempt)
    return attempt is None


@operations.add(weight=3, holder=holders, worker=workers, x=st.sampled_from((1, None, "text")))
async def hand_back(side: Side, holder: int, worker: str, x: object) -> object:
    attempt = side.holder(holder)
    if attempt is not None:
        given = HandBack(attempt.snapshot, worker, reason="later", output={"x": x})
        await side.harness.queue.hand_back(given, timeout_seconds=30.0)
    return attempt is None


@operations.add(holder=holders, line=st.sampled_from(("one line", "\u00e4 \u4e16")))
async def log(side: Side, holder: int, line: str) -> object:
    attempt = side.holder(holder)
    if attempt is None:
        return "nobody"
    await side.harness.queue.log(attempt.snapshot.task_id, line)
    return await side.harness.queue.read_log(attempt.snapshot.task_id)


@operations.add(holder=holders, known=st.booleans())
async def read_attempt(side: Side, holder: int, *, known: bool) -> object:
    attempt = side.holder(holder)
    if attempt is None:
        return "nobody"
    snapshot = attempt.snapshot
    task_id = snapshot.task_id if known else UNKNOWN
    return await side.harness.queue.read_attempt(snapshot.workflow_id, task_id)


@operations.add(workflow=workflows)
async def terminate(side: Side, workflow: int) -> None:
    await side.harness.workflows.terminate(side.touch(workflow), "enough")


@operations.add(workflow=workflows)
async def pause(side: Side, workflow: int) -> None:
    await side.harness.workflows.pause(side.touch(workflow))


@operations.add(weight=2, workflow=workflows)
async def resume(side: Side, workflow: int) -> None:
    await side.harness.workflows.resume(side.touch(workflow))


@operations.add(weight=2, workflow=workflows)
async def retry(side: Side, workflow: int) -> None:
    await side.harness.workflows.retry(side.touch(workflow))


@operations.add(weight=2, workflow=workflows, row=st.integers(0, 5), given=st.booleans())
async def rerun(side: Side, workflow: int, row: int, *, given: bool) -> None:
    workflow_id = side.touch(workflow)
    seen = await side.harness.queue.read_workflow(workflow_id)
    rows = [each for each in seen.tasks if side.is_of_workers(each)] if seen else []
    task_id = rows[row % len(rows)].task_id if rows else UNKNOWN
    await side.harness.workflows.rerun(workflow_id, task_id, {"new": 1} if given else None)


@operations.add(workflow=workflows)
async def restart(side: Side, workflow: int) -> None:
    await side.harness.workflows.restart(side.touch(workflow))


@operations.add(workflow=workflows)
async def decide(side: Side, workflow: int) -> None:
    await side.harness.workflows.decide(side.touch(workflow))


@operations.add(of=types)
async def requeue(side: Side, of: str) -> None:
    await side.harness.workflows.requeue(side.of(of))


FIELDS = {
    "retryCount": st.sampled_from((-1, 0, 1, 5)),
    "retryLogic": st.sampled_from(("FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF")),
    "timeoutSeconds": st.sampled_from((0, 10, 3600, 7200)),
    "timeoutPolicy": st.sampled_from(("RETRY", "TIME_OUT_WF", "ALERT_ONLY")),
    "responseTimeoutSeconds": st.sampled_from((0, 10, 3600)),
    "inputTemplate": st.just({"a": {"b": [1, None]}}),
    "description": st.just("\u00e4 text"),
}


@operations.add(fields=st.fixed_dictionaries({}, optional=FIELDS))
async def define(side: Side, fields: dict[str, object]) -> object:
    name = side.of("drawn")
    await side.harness.definitions.put({"name": name, **QUICK, **fields})
    return await side.definition(name)


@operations.add(of=types)
async def read_definition(side: Side, of: str) -> object:
    await side.define("one")
    return await side.definition(side.of(of))


@operations.add()
async def look(side: Side) -> object:
    side.touched |= set(side.workflows)
    return await side.harness.queue.check()


@operations.add(case=cases)
async def fork_and_join(side: Side, case: str | None) -> object:
    """Both branches complete, in either order; what stands behind them has their outputs."""
    workflow_id = await side.start("fork", case, None)
    for of in ("left", "right", "joined") if case == "a" else ("right", "left", "joined"):
        await side.harness.nudge(workflow_id)
        await side.poll(of, "w1")
        await side.finish(side.attempts.pop(), AttemptStatus.COMPLETED, "w1", of)
    side.workflows.remove(workflow_id)
    return await side.state(workflow_id)


@operations.add(rarely=st.integers(0, 5))
async def time_passes(side: Side, rarely: int) -> object:
    """Deadlines of three kinds pass; what follows is handed out and ends before the next one."""
    if rarely != TIME_PASSES_AT:
        return "not now"
    for shape in TIMED:
        await side.start(shape, None, None)
    await side.poll("leased", "w1")
    await side.poll("delayed", "w1")
    await side.finish(side.attempts[-1], AttemptStatus.FAILED, "w1", None)
    early = await side.poll("delayed", "w1")
    await side.harness.let_pass(DEADLINE_SECONDS)
    for workflow_id in side.workflows[-len(TIMED) :]:
        await side.harness.nudge(workflow_id)
    late = [await side.poll(of, "w2") for of in ("leased", "delayed", "woken")]
    for attempt in side.attempts[-len(late) :]:
        await side.finish(attempt, AttemptStatus.COMPLETED, "w2", 2)
    return early, late


@final
class ConductorMachine(RuleBasedStateMachine):
    """Draws one operation after the other; compares answers, and what was touched."""

    def __init__(self, run: Run, fake: Side, real: Side) -> None:
        super().__init__()
        self._run = run
        self._fake = fake
        self._real = real

    @rule(operation=operations.any())
    def do(self, operation: Operation[Side]) -> None:
        """One operation on both."""
        self._both(operation.name, lambda side: operation.step(side, **operation.drawn))

    def teardown(self) -> None:
        """In the end every workflow is the same; it is ended, so that no sweep knows it."""
        if self._run.found:
            return
        self._both("look", look)
        self._run.do(self._end())

    def _both(self, name: str, step: Callable[[Side], Awaitable[object]]) -> None:
        self._run.check_time()
        self._run.compare(name, *self._run.do(self._asked(step)))
        self._run.compare(name, *self._run.do(self._settled()), counts=False)

    async def _asked(self, step: Callable[[Side], Awaitable[object]]) -> tuple[object, object]:
        await self._fake.harness.let_pass(TICK_SECONDS)
        for side in (self._fake, self._real):
            side.touched.clear()
            side.handed.clear()
        # One after the other: the real side asks for as many rows as memory handed out.
        fake = await outcome_of(step(self._fake), self._fake.told)
        return fake, await outcome_of(step(self._real), self._real.told)

    async def _settled(self) -> tuple[object, object]:
        """The touched workflows of both, once they agree or have had their time."""
        ends_at = time.monotonic() + SETTLES_SECONDS
        while True:
            fake, real = await self._touched(self._fake), await self._touched(self._real)
            if fake == real or time.monotonic() > ends_at:
                return fake, real
            for side in (self._fake, self._real):
                for workflow_id in sorted(side.touched, key=side.number):
                    await side.harness.nudge(workflow_id)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _touched(self, side: Side) -> object:
        # The server tells a parent of its child's end when it comes to it.
        side.touched |= {side.parents[each] for each in side.touched if each in side.parents}
        ordered = sorted(side.touched, key=side.number)
        return {str(side.number(each)): await side.state(each) for each in ordered}

    async def _end(self) -> None:
        for workflow_id in self._real.workflows:
            with suppress(RequestRefusedError):
                await self._real.harness.workflows.terminate(workflow_id, "over")
