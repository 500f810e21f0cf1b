"""What a worker in memory is made of, the same in every run: its way to the servers, and its host.

`WorkerHandle` runs the calls of a `MemoryPort` at once, after a turn. `VirtualClock` moves only
when its owner moves it and wakes sleepers in order of their deadlines. It works under asyncio (a
sleeper waits for a future) and under a scheduler that drives coroutines by hand (a sleeper takes
turns until it is woken). `SeededIdentities` gives the same names for the same seed.
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from random import Random
from types import CoroutineType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, cast, final

from perago.domain.attempt import ExecutionId
from perago.domain.names import execution_id_at
from perago.ports.system import Clock, Concurrency, Identities, nothing

Result = TypeVar("Result")
Served = TypeVar("Served")


class Turn:
    """A bare yield: asyncio takes it as a pause, a scheduler as its chance to choose."""

    def __await__(self) -> Generator[None]:
        yield


class WorkerHandle:
    """The way of one worker's calls to the servers: a request takes a turn, its effect no time.

    Nothing goes wrong here: `perago.testing.fault_injector` stands before the ports of any adapter
    and lets the planned faults happen. The search for schedules overrides `ask` and `perform`,
    because it has no event loop and decides itself when a call takes effect.
    """

    async def ask(self, operation: str, question: Callable[[], Result]) -> Result:
        """Run one read."""
        return await self.perform(operation, question)

    async def perform(self, operation: str, effect: Callable[[], Result]) -> Result:
        """Run one effect."""
        del operation  # for those who override this
        await Turn()
        return effect()


class MemoryPort(Generic[Served]):
    """A port of one server, as one worker reaches it; operations are named `<name>.<method>`."""

    name: ClassVar[str]

    def __init__(self, server: Served, handle: WorkerHandle | None = None) -> None:
        self.server = server
        self.handle = WorkerHandle() if handle is None else handle


Port = TypeVar("Port", bound=MemoryPort[Any])
Given = ParamSpec("Given")
Effect: TypeAlias = Callable[Concatenate[Port, Given], Result]
Request: TypeAlias = "Callable[Concatenate[Port, Given], CoroutineType[Any, Any, Result]]"


def asks(question: Effect[Port, Given, Result]) -> "Request[Port, Given, Result]":
    """Make a port's read of a method that answers at once."""
    return _request(question, reads=True)


def performs(effect: Effect[Port, Given, Result]) -> "Request[Port, Given, Result]":
    """Make a port's effect of a method that takes effect at once."""
    return _request(effect, reads=False)


def performed_by_server(
    effect: Callable[Concatenate[Served, Given], Result], name: str = ""
) -> "Request[MemoryPort[Served], Given, Result]":
    """Make a port's effect of a method of the server; `name` is the port's name for it."""

    def of_server(port: MemoryPort[Served], /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return effect(port.server, *args, **kwargs)

    of_server.__name__ = name or effect.__name__
    return performs(of_server)


def _request(effect: Effect[Port, Given, Result], *, reads: bool) -> "Request[Port, Given, Result]":
    @wraps(effect)
    async def call(port: Port, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        way = port.handle.ask if reads else port.handle.perform
        return await way(f"{port.name}.{effect.__name__}", lambda: effect(port, *args, **kwargs))

    # mypy types what an `async def` makes as a Coroutine, and pyright compares a CoroutineType.
    made: Callable[Concatenate[Port, Given], CoroutineType[Any, Any, Result]] = cast("Any", call)
    return made


START = datetime(2026, 1, 1, tzinfo=UTC)  # always the same moment, so that a run repeats exactly
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
MICROSECONDS_PER_SECOND = 1_000_000
# Turns in a row in which no new sleep began: then every task that was woken has gone as far as it
# can. Fewer move the time before a chain of awaits has come to its next sleep. More are turns that
# every test pays for.
QUIET_TURNS = 8
TURNS_MAX = 10_000  # an end for tasks that call `sleep(0)` in a loop


def as_epoch_ms(moment: datetime) -> int:
    """A time as servers write it: milliseconds since 1970."""
    return (moment - EPOCH) // MILLISECOND


@dataclass(order=True, slots=True)
class _Sleeper:
    deadline: int
    order: int
    woken: bool = field(default=False, compare=False)
    future: asyncio.Future[None] | None = field(default=None, compare=False)


@final
class VirtualClock(Clock):
    """Time in whole microseconds; nothing passes by itself."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0
        self._sleepers: list[_Sleeper] = []
        self._started_sleeps = 0

    def now(self) -> datetime:
        return self._start + timedelta(microseconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed / MICROSECONDS_PER_SECOND

    @property
    def epoch_ms(self) -> int:
        """The wall time as servers write it."""
        return as_epoch_ms(self.now())

    async def sleep(self, seconds: float) -> None:
        self._started_sleeps += 1
        if seconds <= 0:  # others get their turn, as with `asyncio.sleep(0)`
            await Turn()
            return
        sleeper = _Sleeper(self._elapsed + _microseconds(seconds), self._started_sleeps)
        heapq.heappush(self._sleepers, sleeper)
        try:
            await _until_woken(sleeper)
        finally:
            sleeper.woken = True  # a cancelled sleeper is passed over when its time comes

    def seconds_to_next(self) -> float | None:
        """How long until the first sleeper wakes; None when there is no sleeper."""
        self._forget_woken()
        if not self._sleepers:
            return None
        return (self._sleepers[0].deadline - self._elapsed) / MICROSECONDS_PER_SECOND

    def advance(self, seconds: float) -> None:
        """Move the time and wake who is due, in the order of the deadlines.

        The woken run when the caller gives way; `let_pass` lets each run at its own moment.
        """
        target = self._elapsed + _microseconds(seconds)
        while self._wake_next(target):
            pass
        self._elapsed = target

    async def let_pass(self, seconds: float) -> None:
        """Move the time from deadline to deadline and let the woken run at each."""
        target = self._elapsed + _microseconds(seconds)
        await self._settle()
        while self._wake_next(target):
            await self._settle()
        self._elapsed = target
        await self._settle()

    def _wake_next(self, target: int) -> bool:
        """Move to the first deadline up to `target` and wake the sleepers that wait for it."""
        self._forget_woken()
        if not self._sleepers or self._sleepers[0].deadline > target:
            return False
        self._elapsed = self._sleepers[0].deadline
        while self._sleepers and self._sleepers[0].deadline == self._elapsed:
            sleeper = heapq.heappop(self._sleepers)
            if not sleeper.woken:
                _wake(sleeper)
        return True

    def _forget_woken(self) -> None:
        while self._sleepers and self._sleepers[0].woken:
            heapq.heappop(self._sleepers)

    async def _settle(self) -> None:
        quiet = 0
        for _ in range(TURNS_MAX):
            before = self._started_sleeps
            await Turn()
            quiet = quiet + 1 if before == self._started_sleeps else 0
            if quiet == QUIET_TURNS:
                return


async def _until_woken(sleeper: _Sleeper) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # driven by hand
        while not sleeper.woken:
            await Turn()
        return
    sleeper.future = loop.create_future()
    await sleeper.future


def _wake(sleeper: _Sleeper) -> None:
    sleeper.woken = True
    if sleeper.future is not None and not sleeper.future.done():
        sleeper.future.set_result(None)


def _microseconds(seconds: float) -> int:
    if seconds < 0:
        raise ValueError(f"time goes forward: expected 0 or more seconds, found {seconds}")
    return round(seconds * MICROSECONDS_PER_SECOND)


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@final
class SequentialConcurrency(Concurrency):
    """Questions in their order, blocking work at once, turns by name."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    async def together(self, first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
        one, two = await _in_order(first, second)
        return one, two

    async def together3(
        self, first: Awaitable[A], second: Awaitable[B], third: Awaitable[C]
    ) -> tuple[A, B, C]:
        one, two, three = await _in_order(first, second, third)
        return one, two, three

    async def each(
        self, items: Sequence[A], ask: Callable[[A], Awaitable[B]], *, at_most: int
    ) -> list[B]:
        del at_most  # one at a time is never too many
        return [await ask(item) for item in items]

    async def blocking(self, work: Callable[[], A], *, abandon: Callable[[], None] = nothing) -> A:
        del abandon  # what takes no time cannot be cancelled
        return work()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncGenerator[None]:
        while name in self._taken:
            await Turn()
        self._taken.add(name)
        try:
            yield
        finally:
            self._taken.remove(name)


async def _in_order(*questions: Awaitable[Any]) -> list[Any]:
    """Ask one after the other; the first failure is raised once all have ended."""
    answers: list[Any] = []
    failures: list[Exception] = []
    try:
        for question in questions:
            try:
                answers.append(await question)
            except Exception as failure:  # noqa: BLE001 - raised once all have ended
                failures.append(failure)
    finally:
        # When death ends one question the others are never asked; Python must not warn of that.
        for question in questions:
            if isinstance(question, Coroutine):
                question.close()
    if failures:
        raise failures[0]
    return answers


@final
class SeededIdentities(Identities):
    """Names and chance from one seed; a count keeps two names apart.

    `now_ms` is the clock of its servers, because a name tells when it was made; without one, time
    stands where a virtual clock starts.
    """

    def __init__(
        self, seed: int = 0, *, now_ms: Callable[[], int] = lambda: as_epoch_ms(START)
    ) -> None:
        self._now_ms = now_ms
        self._random = Random(seed)  # noqa: S311 - names and jitter, no secrets
        self._count = 0

    def new_execution_id(self) -> ExecutionId:
        self._count += 1
        return execution_id_at(self._now_ms(), self._random.getrandbits(48) << 24 | self._count)

    def fraction(self) -> float:
        return self._random.random()


Json = TypeVar("Json")
SCALARS = (str, int, float, bool, type(None))


def json_copy(value: Json) -> Json:
    """The value with every object and array in it made anew."""
    copied: Json = _copy(value)
    return copied


def _copy(value: Any) -> Any:  # noqa: ANN401 - JSON has no type of its own
    kind: type[object] = type(value)
    if kind in SCALARS:
        return value
    if kind is dict:
        return {name: _copy(each) for name, each in value.items()}
    if kind is list:
        return [_copy(each) for each in value]
    return deepcopy(value)
