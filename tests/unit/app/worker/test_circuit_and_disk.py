"""When a service is left alone, asked, and tried again; and what a full disk does."""

from dataclasses import dataclass, field

import pytest

from perago.adapters.memory.system import VirtualClock
from perago.app.worker.polling import (
    DISK_PAUSE_SECONDS,
    LOOK_AGAIN_SECONDS,
    PAUSE_SECONDS_MAX,
    DiskGate,
    DiskSpace,
    ServiceGate,
)
from perago.ports.errors import (
    OutcomeUnknownError,
    RepositoryMissingError,
    ServiceError,
    UnavailableError,
)


@dataclass
class Service:
    """Answers with the next of what was planned; no plan left is an answer."""

    plan: list[ServiceError] = field(default_factory=list[ServiceError])
    looks: int = 0

    async def look(self) -> None:
        """Answer once."""
        self.looks += 1
        if self.plan:
            raise self.plan.pop(0)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def gate_of(
    clock: VirtualClock, service: Service | None = None, *, fraction: float = 1.0
) -> ServiceGate:
    ask = (service or Service()).look
    return ServiceGate("lakefs", ask, now=clock.monotonic, fraction=lambda: fraction)


async def test_pauses_double_up_to_a_limit(clock: VirtualClock) -> None:
    opened = gate_of(clock)
    pauses: list[float] = []
    for _ in range(9):
        pauses.append(opened.failed("refused"))
        clock.advance(opened.seconds_left)
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == PAUSE_SECONDS_MAX


def test_chance_takes_up_to_half_of_a_pause(clock: VirtualClock) -> None:
    assert gate_of(clock, fraction=0.0).failed("refused") == 0.25
    assert gate_of(clock, fraction=0.5).failed("refused") == 0.375


def test_failures_of_one_outage_count_once(clock: VirtualClock) -> None:
    opened = gate_of(clock)
    assert [opened.failed("refused") for _ in range(3)] == [0.5, 0.5, 0.5]


async def test_an_answer_leaves_a_closed_circuit_as_it_is(clock: VirtualClock) -> None:
    gate = gate_of(clock)
    assert await gate.look() == 0.0
    assert (gate.closed, gate.one_at_a_time) == (True, False)


async def test_a_success_closes(clock: VirtualClock) -> None:
    opened = gate_of(clock)
    opened.failed("refused")
    opened.succeeded()
    assert (opened.closed, opened.seconds_left) == (True, 0.0)
    assert opened.failed("refused") == 0.5


async def test_a_failed_service_is_looked_at_before_anything_is_polled(clock: VirtualClock) -> None:
    service = Service([UnavailableError("refused"), OutcomeUnknownError("silent")])
    gate = gate_of(clock, service)
    assert (await gate.pause(), service.looks) == (0.0, 0)
    gate.failed("an attempt could not reach it")
    assert (await gate.pause(), service.looks) == (0.5, 0)
    clock.advance(0.5)
    assert (await gate.pause(), service.looks) == (1.0, 1)
    clock.advance(1.0)
    assert (await gate.pause(), service.looks) == (2.0, 2)
    clock.advance(2.0)
    assert (await gate.pause(), service.looks) == (0.0, 3)
    assert (gate.one_at_a_time, gate.closed) == (True, False)
    gate.succeeded()
    assert (gate.one_at_a_time, gate.closed) == (False, True)


async def test_only_an_operation_that_succeeds_ends_the_doubling(clock: VirtualClock) -> None:
    gate = gate_of(clock)
    pauses: list[float] = []
    for _ in range(5):
        pauses.append(gate.failed("its store is down"))
        clock.advance(gate.seconds_left)
        assert await gate.pause() == 0.0, "the health question is answered"
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0]
    gate.succeeded()
    assert gate.failed("again") == 0.5


async def test_one_trial_at_a_time_and_attempts_that_are_polled_wait_for_none(
    clock: VirtualClock,
) -> None:
    service = Service()
    gate = gate_of(clock, service)
    gate.failed("its store is down")
    clock.advance(0.5)
    assert await gate.pause() == 0.0
    gate.tried()
    assert (await gate.pause(), await gate.outage()) == (0.5, 0.0)
    clock.advance(0.5)
    assert (await gate.pause(), service.looks) == (0.0, 2), "a trial may take long"
    gate.tried()
    assert gate.failed("its store is down") == 1.0, "the failure of a trial counts"
    assert (await gate.pause(), await gate.outage()) == (1.0, 1.0)


async def test_a_trial_that_could_not_tell_is_followed_by_the_next_at_once(
    clock: VirtualClock,
) -> None:
    gate = gate_of(clock)
    gate.failed("its store is down")
    clock.advance(0.5)
    await gate.pause()
    gate.tried()
    gate.undecided()
    assert (await gate.pause(), gate.one_at_a_time) == (0.0, True)
    gate.failed("its store is down")
    gate.undecided()
    assert await gate.pause() > 0, "what began before the failure says nothing of it"


async def test_a_long_pause_is_asked_for_again_and_ends_with_a_success(
    clock: VirtualClock,
) -> None:
    service = Service()
    gate = gate_of(clock, service)
    for _ in range(8):
        gate.failed("refused")
        clock.advance(gate.seconds_left)
    gate.failed("refused")
    assert gate.seconds_left == PAUSE_SECONDS_MAX
    assert await gate.pause() == LOOK_AGAIN_SECONDS
    gate.succeeded()
    assert (await gate.pause(), service.looks) == (0.0, 0)


async def test_a_refusal_is_an_answer(clock: VirtualClock) -> None:
    gate = gate_of(clock, Service([RepositoryMissingError("no such")]))
    gate.failed("refused")
    clock.advance(1)
    assert await gate.pause() == 0.0


@pytest.mark.parametrize(
    ("total", "free", "is_nearly_full"),
    [
        (100 * 1024**3, 511 * 1024**2, True),
        (100 * 1024**3, 513 * 1024**2, False),
        (1024**3, 20 * 1024**2, True),
        (1024**3, 22 * 1024**2, False),
    ],
    ids=["large full", "large", "small full", "small"],
)
def test_when_a_disk_is_nearly_full(total: int, free: int, is_nearly_full: bool) -> None:  # noqa: FBT001
    assert DiskSpace(total, free).is_nearly_full is is_nearly_full


def test_an_operator_may_want_more_room() -> None:
    assert DiskSpace(100 * 1024**3, 50 * 1024**3, wanted=51 * 1024**3).is_nearly_full
    assert not DiskSpace(100 * 1024**3, 1024, wanted=1024).is_nearly_full


def test_a_full_disk_holds_polling_back_and_warns_once_an_episode() -> None:
    free = [10, 10, 10**12, 10]
    warned: list[DiskSpace] = []
    gate = DiskGate(lambda: DiskSpace(10**12, free.pop(0)), warned.append)
    pauses = [gate.pause() for _ in range(4)]
    assert pauses == [DISK_PAUSE_SECONDS, DISK_PAUSE_SECONDS, 0.0, DISK_PAUSE_SECONDS]
    assert len(warned) == 2
