"""Ports of one worker with its faults between: the same on memory and on real servers.

The request really travels; only what this worker sees of it is taken away. Knows no port by
name: every coroutine method of a port is one call.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, Protocol, TypeVar, cast, final

from perago.domain.attempt import AttemptRecord
from perago.domain.outcome import NoAnswer
from perago.ports.errors import OutcomeUnknownError, UnavailableError
from perago.testing.attempt_story import EventKind, StoryListener
from perago.testing.faults import (
    Call,
    Crash,
    ExpireLease,
    Fault,
    ForeignCommit,
    LoseAnswer,
    LoseRequest,
    Side,
    Unavailable,
    Until,
    Zombie,
)

Port = TypeVar("Port")
Installation = TypeVar("Installation")
Send = Callable[[], Awaitable[Any]]


class CallGate(Protocol):
    """Stands between a worker and its ports."""

    async def passes(self, call: Call, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Let one call through, or not."""
        ...


class FaultyPort:
    """One port behind a gate."""

    def __init__(self, port: object, name: str, gate: CallGate) -> None:
        self._port = port
        self._name = name
        self._gate = gate

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._port, verb)
        operation = f"{self._name}.{verb}"

        async def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - any port's
            return await self._gate.passes(
                Call(operation, arguments, options), lambda: method(*arguments, **options)
            )

        return call


def faulty_port(port: Port, name: str, gate: CallGate) -> Port:
    """The same port behind a gate."""
    return cast("Port", FaultyPort(port, name, gate))


def faulty_installation(installation: Installation, gate: CallGate) -> Installation:
    """The same installation, every port of it behind a gate."""
    value = cast("Any", installation)
    ports = {
        field.name: FaultyPort(getattr(value, field.name), field.name, gate)
        for field in fields(value)
        if field.name != "close"
    }
    return cast("Installation", replace(value, **ports))


class RealMeans(Protocol):
    """Stands outside the worker and strikes around one call."""

    def can(self, fault: Fault, call: Call) -> bool:
        """Whether the fault is brought about by these means; else it strikes at the port."""
        ...

    async def carry(self, fault: Fault, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Send while the fault is in force; the answer, or what the adapter makes of none."""
        ...


# Calls that change something and raise when their answer is lost. `merge` and `relocate` answer
# NoAnswer instead, as their ports promise.
EFFECTS = frozenset(
    {"create", "delete", "commit", "upload", "delete_many", "copy", "complete", "extend_lease"}
)
ANSWERED_EFFECTS = frozenset({"merge", "relocate"})


class ProcessDied(BaseException):
    """Nothing of the struck process runs any more."""


class Surrounding(Protocol):
    """What the world does beside a worker."""

    @property
    def means(self) -> RealMeans | None:
        """What strikes for real, where there is such a thing."""
        ...

    async def commit_by_somebody_else(self, record: AttemptRecord, fault: ForeignCommit) -> str:
        """Commit on the attempt's target branch; what was done, for the story."""
        ...

    async def let_lease_expire(self, record: AttemptRecord) -> None:
        """Let more time pass than the attempt's lease is long, and let Conductor notice."""
        ...


@final
class FaultInjector(CallGate):
    """The faults of one worker, which runs one attempt."""

    def __init__(
        self,
        pending: list[Fault],
        around: Surrounding,
        record: AttemptRecord,
        reader: StoryListener,
    ) -> None:
        self._pending = pending  # shared by all workers: a fault strikes once
        self._around = around
        self._record = record
        self._reader = reader
        self._counts: Counter[int] = Counter()
        self._released = asyncio.Event()
        self.dead = False
        self.waits_for: Until | None = None

    def release(self) -> None:
        """Let a standing worker go on."""
        if self.waits_for is not None:
            self._reader.note(EventKind.INJECTED, "goes on, not knowing that time has passed")
        self.waits_for = None
        self._released.set()

    async def passes(self, call: Call, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Strike before, send, strike after."""
        self._live()
        due, send = self._by_real_means(self._due(call), call, send)
        await self._inject_all(due, Side.BEFORE)
        self._live()
        lost = any(isinstance(fault, LoseRequest | LoseAnswer) for fault in due)
        try:
            arrives = not any(isinstance(fault, LoseRequest) for fault in due)
            answer = await send() if arrives else None
        except Exception:
            # A refusal is an answer as well: it can be lost, and its reader can die.
            self._live()
            await self._inject_all(due, Side.AFTER)
            if not lost:
                raise
            answer = None
        else:
            self._live()
            await self._inject_all(due, Side.AFTER)
        return lost_answer(call) if lost else answer

    def _by_real_means(
        self, due: Sequence[Fault], call: Call, send: Send
    ) -> tuple[Sequence[Fault], Send]:
        """Leave to real means what they bring about; the rest strikes at the port."""
        means = self._around.means
        if means is None:
            return due, send
        rest: list[Fault] = []
        for fault in due:
            if means.can(fault, call):
                send = partial(self._carry, means, fault, send)
            else:
                rest.append(fault)
        return rest, send

    async def _carry(self, means: RealMeans, fault: Fault, send: Send) -> Any:  # noqa: ANN401
        self._tell(f"by real means: {_described(fault)}")
        answer = await means.carry(fault, send)
        if isinstance(fault, ExpireLease):
            await self._around.let_lease_expire(self._record)
        return answer

    async def _inject_all(self, due: Sequence[Fault], side: Side) -> None:
        for fault in due:
            if fault.moment.side is side:
                await self._inject(fault)

    def _due(self, call: Call) -> Sequence[Fault]:
        """The faults whose moment this call is; they are used up."""
        due: list[Fault] = []
        for fault in list(self._pending):
            moment = fault.moment
            if moment.attempt != self._reader.story.number or not self._is_of_task(moment.task):
                continue
            if not moment.is_reached_by(call):
                continue
            self._counts[id(fault)] += 1
            if self._counts[id(fault)] == moment.nth:
                self._pending.remove(fault)
                due.append(fault)
        return due

    def _is_of_task(self, task: str | None) -> bool:
        snapshot = self._record.snapshot
        return task in (None, snapshot.task_type, snapshot.reference_name)

    async def _inject(self, fault: Fault) -> None:
        if not isinstance(fault, ForeignCommit):
            self._tell(_described(fault))
        match fault:
            case Crash():
                self.dead = True
                raise ProcessDied
            case Unavailable(moment=moment):
                raise UnavailableError(f"{moment.point}: the server answered 503; nothing was done")
            case Zombie(until=until):
                await self._stand_still(until)
            case ExpireLease():
                await self._around.let_lease_expire(self._record)
            case ForeignCommit():
                self._tell(await self._around.commit_by_somebody_else(self._record, fault))
            case LoseRequest() | LoseAnswer():
                pass  # its call is not sent, or its answer is dropped, by `passes`

    async def _stand_still(self, until: Until) -> None:
        self._released.clear()
        self.waits_for = until
        await self._released.wait()
        self._live()

    def _tell(self, text: str) -> None:
        self._reader.note(EventKind.INJECTED, text)

    def _live(self) -> None:
        if self.dead:
            raise ProcessDied


def _described(fault: Fault) -> str:
    """What a fault does, for the story."""
    moment = fault.moment
    happenings: dict[type[Fault], str] = {
        Crash: f"the process dies {moment}",
        LoseRequest: f"the request is lost: {moment.point}",
        LoseAnswer: f"the answer is lost: {moment.point}",
        Unavailable: f"the server is unavailable: {moment.point}",
        Zombie: f"the process stops {moment}",
        ExpireLease: f"the lease runs out {moment}",
        ForeignCommit: f"another writer commits {moment}",
    }
    until = f", until {fault.until}" if isinstance(fault, Zombie) else ""
    return happenings[type(fault)] + until


def lost_answer(call: Call) -> object:
    """What a caller sees of a call without an answer: a value or an error, by what it asked."""
    verb = call.operation.rpartition(".")[2]
    text = f"{call.operation}: the request left and no answer came"
    if verb in ANSWERED_EFFECTS:
        return NoAnswer(text)
    if verb in EFFECTS:
        raise OutcomeUnknownError(text)
    raise UnavailableError(text)
