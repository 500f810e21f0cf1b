"""How many attempts a poller asks for, how long it lets the server wait, and when it is silent."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import final

import pytest

from perago.app.worker.bodies import SlotBudget
from perago.app.worker.polling import (
    BUSY_WAIT_MS,
    DISK_PAUSE_SECONDS,
    GATHER_SECONDS,
    IDLE_WAIT_MS,
    OPEN_POLL_SECONDS,
    SHARED_WAIT_MS,
    DiskGate,
    DiskSpace,
    PolledType,
    Poller,
    PollTools,
    ServiceGate,
)
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus
from perago.ports.conductor import PollRequest
from perago.ports.errors import OutcomeUnknownError, UnavailableError
from perago.ports.system import Clock


@final
class PassingClock(Clock):
    """Time passes as fast as it is slept."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        """Since a fixed day."""
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """Since the beginning."""
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        """Let others have their turn, and be there."""
        await asyncio.sleep(0)
        self._seconds += seconds


@dataclass
class Scene:
    """A server that answers by plan; the worker drains with the plan's last answer."""

    plan: list[int | Exception]
    slots: int = 2
    server_waits: bool = True
    asked: list[PollRequest] = field(default_factory=list[PollRequest])
    asked_at: list[float] = field(default_factory=list[float])
    taken: list[AttemptRecord] = field(default_factory=list[AttemptRecord])
    clock: PassingClock = field(default_factory=PassingClock)
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    while_polling: Callable[[], None] = lambda: None
    take: Callable[[AttemptRecord], None] | None = None
    looks: list[float] = field(default_factory=list[float])
    look_is_answered: bool = True

    def __post_init__(self) -> None:
        self.budget = SlotBudget(lambda: self.slots)
        now = self.clock.monotonic
        self.conductor = ServiceGate("conductor", answers, now=now, fraction=lambda: 1.0)

    async def run(
        self, *services: ServiceGate, disk: DiskGate | None = None, domain: str | None = None
    ) -> None:
        """Poll until the plan is over."""
        tools = PollTools(
            poll=self.poll,
            clock=self.clock,
            budget=self.budget,
            conductor=self.conductor,
            worker_id="w-1",
            draining=self.draining,
            take=self.take or self.taken.append,
            unheard=self.unheard,
        )
        await Poller(PolledType("t", domain, services, disk), tools).run()

    async def unheard(self, task_type: str) -> bool:
        """Remember when it was asked for rows that nobody heard of."""
        assert task_type == "t"
        self.looks.append(self.clock.monotonic())
        return self.look_is_answered

    async def poll(self, request: PollRequest) -> tuple[AttemptRecord, ...]:
        """The next answer of the plan."""
        self.asked.append(request)
        self.asked_at.append(self.clock.monotonic())
        self.while_polling()
        planned = self.plan.pop(0)
        if not self.plan:
            self.draining.set()
        if isinstance(planned, Exception):
            raise planned
        if self.server_waits and planned < request.count:
            await self.clock.sleep(request.wait_ms / 1000)
        row = AttemptSnapshot("w", "t1", "r", "t", AttemptStatus.IN_PROGRESS)
        return (AttemptRecord(row),) * planned


async def test_an_idle_poll_waits_for_one_and_a_busy_one_asks_for_every_free_slot() -> None:
    scene = Scene([0, 1, 1, 0], slots=4)
    await scene.run(domain="blue")
    assert [(each.count, each.wait_ms) for each in scene.asked] == [
        (1, IDLE_WAIT_MS),
        (1, IDLE_WAIT_MS),
        (3, BUSY_WAIT_MS),
        (2, BUSY_WAIT_MS),
    ]
    assert {(each.domain, each.worker_id) for each in scene.asked} == {("blue", "w-1")}
    assert (len(scene.taken), scene.budget.free) == (2, 2)


async def test_a_busy_poll_waits_a_moment_for_bodies_that_end_together() -> None:
    scene = Scene([1, 1, 1, 0], slots=3)
    polling = asyncio.create_task(scene.run())
    while len(scene.asked) < 3:  # noqa: ASYNC110 - driven by hand
        await asyncio.sleep(0)
    scene.budget.give_back(1)
    await asyncio.sleep(0)
    scene.budget.give_back(1)
    await polling
    assert [each.count for each in scene.asked] == [1, 2, 1, 2]
    assert scene.asked_at[3] - scene.asked_at[2] == pytest.approx(GATHER_SECONDS)


async def test_nothing_is_polled_without_a_free_slot() -> None:
    scene = Scene([2, 1, 0], slots=1)
    scene.plan = [1, 0]
    polling = asyncio.create_task(scene.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert (len(scene.asked), scene.budget.free) == (1, 0)
    scene.budget.give_back(1)
    await polling
    assert len(scene.asked) == 2


async def test_a_drain_ends_the_wait_for_a_slot_and_keeps_what_the_last_poll_brought() -> None:
    scene = Scene([1, 0], slots=1)
    polling = asyncio.create_task(scene.run())
    for _ in range(20):
        await asyncio.sleep(0)
    scene.draining.set()
    scene.budget.changed()
    await polling
    assert (len(scene.asked), len(scene.taken), scene.budget.taken) == (1, 1, 1)


async def test_a_poll_that_fails_gives_its_slots_back_and_opens_the_circuit() -> None:
    scene = Scene([UnavailableError("refused"), 0])
    await scene.run()
    assert scene.budget.taken == 0
    assert scene.conductor.closed
    assert not Scene([0]).conductor.last_error
    assert scene.conductor.last_error == "refused"


async def answers() -> None:
    """A health question that is answered whatever else is broken."""


async def test_polls_that_keep_failing_become_rare_although_the_health_question_is_answered() -> (
    None
):
    scene = Scene([UnavailableError("the queue's store is down") for _ in range(12)])
    await scene.run(scene.conductor)
    pauses = [after - before for before, after in pairwise(scene.asked_at)]
    assert pauses == pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60])


async def test_attempts_are_not_burnt_while_lakefs_fails_though_it_answers() -> None:
    scene = Scene([1] * 10, slots=12)
    lakefs = ServiceGate("lakefs", answers, now=scene.clock.monotonic, fraction=lambda: 1.0)

    def take(record: AttemptRecord) -> None:
        scene.taken.append(record)
        if len(scene.taken) > 2:  # served until then
            lakefs.failed("its block store is down")

    scene.take = take
    await scene.run(lakefs)
    assert [each.count for each in scene.asked[:3]] == [1, 11, 10]
    assert {each.count for each in scene.asked[3:]} == {1}, "one finds out, not a batch"
    tried_at = scene.asked_at[2:]
    pauses = [after - before for before, after in pairwise(tried_at)]
    assert pauses == pytest.approx([0.5, 1, 2, 4, 8, 16, 32], rel=0.05)


async def test_empty_answers_that_come_too_early_are_asked_for_ever_more_rarely() -> None:
    scene = Scene([0] * 6, server_waits=False)
    await scene.run()
    pauses = [after - before for before, after in pairwise(scene.asked_at)]
    assert pauses == pytest.approx([0.001, 0.002, 0.004, 0.008, 0.016])


async def test_a_type_waits_shortly_when_others_wait_for_the_slot() -> None:
    scene = Scene([0, 0], slots=1)
    waiting: list[asyncio.Task[int]] = []

    def another_comes() -> None:
        if not waiting:
            waiting.append(asyncio.create_task(scene.budget.take(1)))

    scene.while_polling = another_comes
    polling = asyncio.create_task(scene.run())
    for _ in range(30):
        await asyncio.sleep(0)
    assert waiting[0].done(), "who came later is served later, but served"
    again = asyncio.create_task(scene.budget.take(1))
    scene.budget.give_back(1)
    await polling
    assert [each.wait_ms for each in scene.asked] == [IDLE_WAIT_MS, SHARED_WAIT_MS]
    await again


async def test_nothing_is_polled_while_the_disk_is_full() -> None:
    scene = Scene([0])
    free = [0, 0, 10**12]
    await scene.run(disk=DiskGate(lambda: DiskSpace(10**12, free.pop(0)), lambda _: None))
    assert scene.asked_at == [2 * DISK_PAUSE_SECONDS]


async def test_rows_of_a_poll_without_an_answer_are_looked_for_when_that_poll_is_over() -> None:
    scene = Scene([OutcomeUnknownError("no answer"), *[0] * 8])
    await scene.run()
    (look,) = scene.looks
    assert look >= IDLE_WAIT_MS / 1000 + OPEN_POLL_SECONDS
    assert look < scene.asked_at[-1], "and not at the end of the worker"


async def test_a_look_that_was_not_answered_is_repeated() -> None:
    scene = Scene([OutcomeUnknownError("no answer"), *[0] * 8], look_is_answered=False)
    await scene.run()
    assert len(scene.looks) > 1


async def test_a_poll_that_was_never_sent_is_not_looked_for() -> None:
    scene = Scene([UnavailableError("refused"), *[0] * 8])
    await scene.run()
    assert scene.looks == []
