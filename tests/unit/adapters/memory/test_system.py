"""The virtual clock, under asyncio and by hand, with its cost in turns, and copies of JSON."""

import asyncio
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from perago.adapters.memory.system import VirtualClock, json_copy

Waiting: TypeAlias = Coroutine[object, None, None]
# The clock gives way until nobody has begun to sleep for eight turns, and one wakes the sleeper.
TURNS_OF_A_BEAT_MAX = 10


async def note(clock: VirtualClock, seconds: float, notes: list[tuple[str, float]]) -> None:
    await clock.sleep(seconds)
    notes.append((f"slept {seconds}", clock.monotonic()))


@dataclass(slots=True)
class Counted:
    """Work whose turns are counted: each is a round of the event loop, whatever it takes."""

    work: Waiting
    turns: int = 0

    def __await__(self) -> Generator[None]:
        for turn in self.work.__await__():
            self.turns += 1
            yield turn


def drive(coroutines: list[Waiting]) -> None:
    """Give each a turn until all wait; whoever is done is dropped."""
    for coroutine in list(coroutines):
        try:
            coroutine.send(None)
        except StopIteration:
            coroutines.remove(coroutine)


async def test_sleepers_wake_in_order_each_at_its_own_moment() -> None:
    clock, notes = VirtualClock(), list[tuple[str, float]]()
    async with asyncio.TaskGroup() as group:
        for seconds in (3, 1, 2, 1):
            group.create_task(note(clock, seconds, notes))
        await clock.let_pass(10)
    assert notes == [("slept 1", 1.0), ("slept 1", 1.0), ("slept 2", 2.0), ("slept 3", 3.0)]
    assert clock.monotonic() == 10.0


async def test_a_sleeper_that_sleeps_again_wakes_again_on_the_way() -> None:
    clock, moments = VirtualClock(), list[float]()

    async def beat() -> None:
        while len(moments) < 4:
            await clock.sleep(2.5)
            moments.append(clock.monotonic())

    async with asyncio.TaskGroup() as group:
        group.create_task(beat())
        await clock.let_pass(10)
    assert moments == [2.5, 5.0, 7.5, 10.0]


async def test_no_sleeper_wakes_early() -> None:
    clock, notes = VirtualClock(), list[tuple[str, float]]()
    sleeping = asyncio.ensure_future(note(clock, 5, notes))
    await clock.let_pass(4.999)
    assert not notes
    assert clock.seconds_to_next() == pytest.approx(0.001)
    await clock.let_pass(0.001)
    await sleeping
    assert notes == [("slept 5", 5.0)]


async def test_a_cancelled_sleeper_holds_no_other_up() -> None:
    clock, notes = VirtualClock(), list[tuple[str, float]]()
    cancelled = asyncio.ensure_future(note(clock, 1, notes))
    other = asyncio.ensure_future(note(clock, 2, notes))
    await clock.let_pass(0.5)
    cancelled.cancel()
    await clock.let_pass(5)
    await other
    assert notes == [("slept 2", 2.0)]
    assert clock.seconds_to_next() is None


async def test_a_time_out_of_asyncio_is_not_needed_to_wake() -> None:
    clock = VirtualClock()
    sleeping = asyncio.ensure_future(clock.sleep(3600))
    await asyncio.sleep(0)
    clock.advance(3600)
    await asyncio.wait_for(sleeping, timeout=5)


def test_coroutines_driven_by_hand_sleep_without_a_loop() -> None:
    clock, notes = VirtualClock(), list[tuple[str, float]]()
    running: list[Waiting] = [note(clock, 2, notes), note(clock, 1, notes)]
    for _ in range(3):
        drive(running)
    assert not notes
    clock.advance(1)
    drive(running)
    clock.advance(1)
    drive(running)
    assert notes == [("slept 1", 1.0), ("slept 2", 2.0)]
    assert not running


def test_time_goes_forward() -> None:
    with pytest.raises(ValueError, match="time goes forward"):
        VirtualClock().advance(-1)


def test_the_wall_time_moves_with_it() -> None:
    clock = VirtualClock()
    before, before_ms = clock.now(), clock.epoch_ms
    clock.advance(61.5)
    assert (clock.now() - before).total_seconds() == 61.5
    assert clock.epoch_ms - before_ms == 61_500


async def test_ten_thousand_seconds_of_heartbeats_cost_ten_turns_a_beat() -> None:
    clock, beats = VirtualClock(), 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await clock.sleep(20)
            beats += 1

    beating = asyncio.ensure_future(beat())
    passing = Counted(clock.let_pass(10_000))
    await passing
    beating.cancel()
    assert (beats, clock.monotonic()) == (500, 10_000)
    assert passing.turns <= TURNS_OF_A_BEAT_MAX * beats


VALUES: tuple[object, ...] = (
    {"a": [1, {"b": None}], "c": "text", "d": 1.5, "e": True},
    [],
    "text",
    None,
    (1, [2]),
)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_copy_is_equal(value: object) -> None:
    assert json_copy(value) == value


def test_changing_a_copy_changes_nothing_else() -> None:
    inner: list[object] = [1]
    value: dict[str, object] = {"list": inner, "objects": [{"deep": inner}]}
    copied = json_copy(value)
    inner.append(2)
    assert copied == {"list": [1], "objects": [{"deep": [1]}]}
