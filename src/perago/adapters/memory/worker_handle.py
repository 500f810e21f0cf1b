"""Faults as data, and the handle through which one worker reaches the servers in memory.

A fault says what goes wrong, at which call of which operation. An operation is named `port.method`
(`branches.merge`); `ANY` counts every call of the worker. `WorkerHandle` lets the faults happen and
counts requests; after a planned crash it raises at every later call, as a dead process makes none.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias, TypeVar, cast

from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError

ANY = "*"


class When(Enum):
    """On which side of the effect a fault strikes."""

    BEFORE_EFFECT = "before"
    AFTER_EFFECT = "after"


@dataclass(frozen=True, slots=True)
class CrashBefore:
    """The process dies before the request leaves: no effect, no tidying up."""

    operation: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class CrashAfter:
    """The process dies after the effect and before it reads the answer."""

    operation: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class LoseRequest:
    """The request never arrives; the worker lives and sees no answer."""

    operation: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """The effect happens; the worker lives and sees no answer."""

    operation: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Hold:
    """The request stays on the wire: no answer now, and it lands when `release` lets it."""

    operation: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Refuse:
    """The world refuses with this error; nothing happens."""

    operation: str
    error: Exception
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The world answers with this value, one the operation can return; nothing happens."""

    operation: str
    value: object
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Pause:
    """The worker stands still on one side of the effect until `resume`: a zombie in the making."""

    operation: str
    when: When
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Somebody else acts on the same world, on one side of the effect."""

    operation: str
    when: When
    action: Callable[[], object]
    nth: int = 1


Fault: TypeAlias = (
    CrashBefore | CrashAfter | LoseRequest | LoseAnswer | Hold | Refuse | Answer | Pause | Meanwhile
)


Result = TypeVar("Result")


class WorkerDied(BaseException):
    """The process is gone: nothing of it may run, its `finally` blocks included."""


class Turn:
    """A bare yield: asyncio takes it as a pause, a scheduler as its chance to choose."""

    def __await__(self) -> Generator[None]:
        yield


@dataclass(frozen=True, slots=True)
class RequestOnTheWire:
    """A request that left and has not arrived."""

    operation: str
    effect: Callable[[], object]

    def land(self) -> object:
        """Let it take effect; a refusal is returned, because nobody listens any more."""
        try:
            return self.effect()
        except ServiceError as refusal:
            return refusal


class WorkerHandle:
    """Life and death of one worker, the number of its requests, and the faults planned for it.

    Death is a dead handle and not only an exception: a killed process tidies nothing up, so every
    later call of a dead handle raises again instead of taking effect.
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.calls: Counter[str] = Counter()
        self.wire: list[RequestOnTheWire] = []
        self.dead = False
        self.paused = False
        self._faults = list(faults)

    def plan(self, *faults: Fault) -> None:
        """Add faults; `nth` counts from the calls made so far."""
        self._faults.extend(_after(fault, self.calls) for fault in faults)

    def kill(self) -> None:
        """End the process wherever it stands."""
        self.dead = True
        self.paused = False

    def resume(self) -> None:
        """Let a paused worker go on."""
        self.paused = False

    def release(self) -> object:
        """Let the oldest request on the wire arrive, also after its sender's death."""
        return self.wire.pop(0).land()

    @property
    def requests(self) -> int:
        """How many requests this worker has made."""
        return self.calls[ANY]

    async def ask(self, operation: str, question: Callable[[], Result]) -> Result:
        """Run one read; a lost answer is UnavailableError, because nothing can have changed."""
        try:
            return await self.perform(operation, question)
        except OutcomeUnknownError as lost:
            raise UnavailableError(str(lost)) from lost

    async def perform(self, operation: str, effect: Callable[[], Result]) -> Result:
        """Take a turn, then run one effect between the strikes that are planned for this call."""
        self._live()
        self.calls[operation] += 1
        self.calls[ANY] += 1
        due = [fault for fault in self._faults if self._is_due(fault, operation)]
        await Turn()
        for fault in due:
            await self._before(fault, operation, effect)
        self._live()
        answers = [fault.value for fault in due if isinstance(fault, Answer)]
        try:
            return cast("Result", answers[0]) if answers else effect()
        finally:
            # A refusal is an answer as well: it can be lost, and its reader can die.
            for fault in due:
                await self._after(fault, operation)

    def _is_due(self, fault: Fault, operation: str) -> bool:
        return fault.operation in (operation, ANY) and self.calls[fault.operation] == fault.nth

    async def _before(self, fault: Fault, operation: str, effect: Callable[[], object]) -> None:
        match fault:
            case CrashBefore():
                self.kill()
                raise WorkerDied
            case LoseRequest():
                raise _unanswered(operation)
            case Hold():
                self.wire.append(RequestOnTheWire(operation, effect))
                raise _unanswered(operation)
            case Refuse(error=error):
                raise error
            case Pause(when=When.BEFORE_EFFECT):
                await self._stand_still()
            case Meanwhile(when=When.BEFORE_EFFECT, action=action):
                action()
            case _:
                pass

    async def _after(self, fault: Fault, operation: str) -> None:
        match fault:
            case CrashAfter():
                self.kill()
                raise WorkerDied
            case LoseAnswer():
                raise _unanswered(operation)
            case Pause(when=When.AFTER_EFFECT):
                await self._stand_still()
            case Meanwhile(when=When.AFTER_EFFECT, action=action):
                action()
            case _:
                pass

    async def _stand_still(self) -> None:
        self.paused = True
        while self.paused:
            await Turn()
        self._live()

    def _live(self) -> None:
        if self.dead:
            raise WorkerDied


def _unanswered(operation: str) -> OutcomeUnknownError:
    return OutcomeUnknownError(f"{operation}: the request left and no answer came")


def _after(fault: Fault, calls: Counter[str]) -> Fault:
    return replace(fault, nth=fault.nth + calls[fault.operation])
