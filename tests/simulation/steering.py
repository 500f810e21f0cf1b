"""What a simulated process is made of: a handle, a clock, identities, all moved by hand.

Every port call of a process stops here and waits until the engine says what becomes of it. There
is no event loop: a process is a coroutine, and the engine sends it the answers one by one.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar, cast, final

from perago.adapters.memory.system import Turn, WorkerHandle
from perago.domain.attempt import ExecutionId
from perago.domain.outcome import NoAnswer
from perago.ports.errors import OutcomeUnknownError
from perago.ports.system import Clock, Concurrency, Identities
from perago.testing.fault_injector import UNANSWERED_IS_A_VALUE, ProcessDied

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
Result = TypeVar("Result")

# Functions that touch a disk, and what does the same in memory.
OnDisk = Mapping[Callable[..., object], Callable[..., object]]

START = datetime(2026, 1, 1, tzinfo=UTC)
MICROSECONDS = 1_000_000


@dataclass(slots=True, eq=False)
class PortCall:
    """One request that is about to leave; `effect` is what the server would do.

    `after` is the step of its sender's last answer, `asked` the moment: what the sender could
    know when it asked. `waited`: the sender has slept since it last read its row. `about` is what
    it was given, where somebody compares that.
    """

    operation: str
    effect: Callable[[], object]
    reads: bool = False
    after: int = 0
    asked: float = 0.0
    waited: bool = False
    late: bool = False
    about: object = None


@dataclass(slots=True, eq=False)
class Sleep:
    """The process sleeps until this moment, in microseconds since the start."""

    until: int


@dataclass(slots=True, eq=False)
class BodyRun:
    """The team's function runs now; the engine says how it ends."""

    seconds: float


# None is a bare turn: the process could go on at once, and lets others go first.
Stop = PortCall | Sleep | BodyRun | None


def as_stop(found: object) -> Stop:
    """Where a process has stopped: anything else, such as a future of asyncio, is a mistake."""
    assert found is None or isinstance(found, PortCall | Sleep | BodyRun), found
    return found


@dataclass(slots=True)
class Stopped:
    """Hands a stop to the engine and returns what the engine answers."""

    stop: Stop

    def __await__(self) -> Generator[Stop, object, object]:
        return (yield self.stop)


@final
class SteeredHandle(WorkerHandle):
    """The hold of one process on the in-memory servers: every call is a stop."""

    def __init__(self) -> None:
        self.dead = False

    def kill(self) -> None:
        """End the process wherever it stands."""
        self.dead = True

    async def ask(self, operation: str, question: Callable[[], Result]) -> Result:
        """Stop at a read."""
        return cast("Result", await self.stop(PortCall(operation, question, reads=True)))

    async def perform(self, operation: str, effect: Callable[[], Result]) -> Result:
        """Stop at a write.

        A poll fails as reads do: when its answer is lost, a row waits for its time-out without a
        worker, and the search has that in a process that dies before its first step.
        """
        call = PortCall(operation, effect, reads=operation == "queue.poll")
        return cast("Result", await self.stop(call))

    async def stop(self, call: PortCall) -> object:
        """Wait until the engine says what becomes of a call."""
        # A killed process tidies nothing up: what its `finally` blocks ask for never leaves.
        if self.dead:
            raise ProcessDied
        try:
            return await Stopped(call)
        except OutcomeUnknownError as lost:
            if call.operation in UNANSWERED_IS_A_VALUE:
                return NoAnswer(str(lost))
            raise


@final
class SteeredClock(Clock):
    """One clock for all servers and processes; it moves when the engine moves it."""

    def __init__(self) -> None:
        self.elapsed = 0

    def now(self) -> datetime:
        """The wall time."""
        return START + timedelta(microseconds=self.elapsed)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self.elapsed / MICROSECONDS

    def seconds_since_epoch(self) -> int:
        """The time as lakeFS writes it into commits."""
        return int(START.timestamp()) + self.elapsed // MICROSECONDS

    async def sleep(self, seconds: float) -> None:
        """Stop until the engine lets the time pass."""
        await Stopped(Sleep(self.elapsed + max(0, round(seconds * MICROSECONDS))))

    def move_to(self, moment: int) -> None:
        """Let time pass; it never goes back."""
        self.elapsed = max(self.elapsed, moment)


@final
class SteeredIdentities(Identities):
    """Execution ids as the worker makes them (UUIDv7: they tell their time), and no chance."""

    def __init__(self, clock: SteeredClock, number: int) -> None:
        self._clock = clock
        self._number = number
        self._count = 0

    def new_execution_id(self) -> ExecutionId:
        """32 hex digits: milliseconds, version, and a number instead of chance."""
        self._count += 1
        milliseconds = int(self._clock.now().timestamp() * 1000)
        return ExecutionId(f"{milliseconds:012x}7{self._count:03x}8{self._number:015x}")

    def fraction(self) -> float:
        """Jitter is a choice of the engine: who wakes first."""
        return 0.5


@final
class SteeredConcurrency(Concurrency):
    """Two questions asked side by side, interleaved call by call in a fixed turn.

    Both requests are under way before the first is answered, as in the worker: one stop of the
    first, one of the second, and so on.
    """

    def __init__(self, on_disk: OnDisk) -> None:
        self._taken: set[str] = set()
        self._on_disk = on_disk

    async def together(self, first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
        """Two questions."""
        one, two = await _SideBySide([first, second])
        return cast("A", one), cast("B", two)

    async def together3(
        self, first: Awaitable[A], second: Awaitable[B], third: Awaitable[C]
    ) -> tuple[A, B, C]:
        """Three questions."""
        one, two, three = await _SideBySide([first, second, third])
        return cast("A", one), cast("B", two), cast("C", three)

    async def each(
        self, items: Sequence[A], ask: Callable[[A], Awaitable[B]], *, at_most: int
    ) -> list[B]:
        """As many as may be asked at a time, interleaved call by call as the others are."""
        answers: dict[int, B] = {}
        left = iter(enumerate(items))
        failed = False

        async def ask_until_a_failure() -> None:
            nonlocal failed
            for position, item in left:
                try:
                    answers[position] = await ask(item)
                except BaseException:
                    failed = True
                    raise
                if failed:
                    return

        await _SideBySide([ask_until_a_failure() for _ in range(min(at_most, len(items)))])
        return [answers[position] for position in range(len(items))]

    def turn(self, name: str) -> "_OneAtATime":
        """One at a time within this process."""
        return _OneAtATime(self._taken, name)

    async def blocking(
        self, work: Callable[[], A], *, abandon: Callable[[], None] = lambda: None
    ) -> A:
        """Local work takes no time here, and what it asks of a disk is done in memory."""
        del abandon
        asked: object = work
        if isinstance(asked, partial):
            call = cast("partial[object]", asked)
            if call.func in self._on_disk:
                return cast("A", self._on_disk[call.func](*call.args))
        return work()


class _OneAtATime:
    def __init__(self, taken: set[str], name: str) -> None:
        self._taken, self._name = taken, name

    async def __aenter__(self) -> None:
        while self._name in self._taken:
            await Turn()
        self._taken.add(self._name)

    async def __aexit__(self, *error: object) -> None:
        self._taken.discard(self._name)


class _SideBySide:
    """Awaits several awaitables in turn; the first error is raised when all have ended."""

    def __init__(self, questions: Sequence[Awaitable[object]]) -> None:
        self._running = [
            cast("Generator[Stop, object, object]", question.__await__()) for question in questions
        ]
        self._stops: list[tuple[int, Stop]] = []
        self._results: list[object] = [None] * len(questions)
        self._errors: list[Exception] = []

    def __await__(self) -> Generator[Stop, object, Sequence[object]]:
        try:
            for position in range(len(self._running)):
                self._advance(position, None, None)
            while self._stops:
                position, stop = self._stops.pop(0)
                answer: object = None
                refusal: Exception | None = None
                try:
                    answer = yield stop
                except Exception as error:  # noqa: BLE001 - handed on to the one who asked
                    refusal = error
                self._advance(position, answer, refusal)
        finally:
            for each in self._running:
                with suppress(ProcessDied, RuntimeError):
                    each.close()
        if self._errors:
            raise self._errors[0]
        return self._results

    def _advance(self, position: int, answer: object, refusal: Exception | None) -> None:
        running = self._running[position]
        try:
            stop = running.send(answer) if refusal is None else running.throw(refusal)
        except StopIteration as ended:
            self._results[position] = ended.value
        except Exception as error:  # noqa: BLE001 - raised when all have ended
            self._errors.append(error)
        else:
            self._stops.append((position, stop))
