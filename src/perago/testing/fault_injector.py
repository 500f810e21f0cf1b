"""Ports of one worker with its faults between: the same on memory and on real servers.

The request really travels; only what this worker sees of it is taken away. Knows no port by
name: every coroutine method of a port is one call.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from inspect import isawaitable
from pathlib import Path
from shutil import copyfile, rmtree
from tempfile import mkdtemp
from typing import Any, Protocol, TypeVar, cast, final
from weakref import finalize

from perago.app.attempt.context import AttemptPorts
from perago.app.attempt.patience import CONDUCTOR, LAKEFS
from perago.domain.outcome import NoAnswer
from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError
from perago.ports.objects import ObjectUpload
from perago.ports.system import Clock
from perago.testing import faults
from perago.testing.servers import RealMeans, Send
from perago.testing.story import EventKind, StoryListener

Port = TypeVar("Port")
Installation = TypeVar("Installation")


class CallGate(Protocol):
    """Stands between a worker and its ports."""

    async def passes(self, call: faults.Call, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Let one call through, or not."""
        ...


# `close` is no request, and `transport` has no calls: whoever moves objects behind a gate uses the
# calls of `objects`.
NOT_PORTS = frozenset({"close", "transport"})


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
                faults.Call(operation, arguments, options), partial(method, *arguments, **options)
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
        if field.name not in NOT_PORTS
    }
    return cast("Installation", replace(value, **ports))


def with_faults_within(ports: AttemptPorts, gate: CallGate) -> AttemptPorts:
    """The same ports, the calls within the worker's machine behind a gate as well."""
    pipeline = faulty_port(ports.lakefs.pipeline, "pipeline", gate)
    return replace(
        ports,
        lakefs=replace(ports.lakefs, pipeline=pipeline),
        body=faulty_port(ports.body, "body", gate),
        directories=faulty_port(ports.directories, "directories", gate),
    )


# After an outage has begun behind a call, nothing comes back from the service either.
LOSSES = (faults.LoseRequest, faults.LoseAnswer, faults.ArriveLate, faults.Outage)
# Both answer NoAnswer where others raise, as their port promises: the steps decide by the value.
UNANSWERED_IS_A_VALUE = frozenset({"branches.merge", "branches.relocate"})


# Calls that only look. Every other call changes something, also a poll: it hands rows out, and
# the rows of a lost answer wait until their leases end.
READS = frozenset(
    {"head", "list_page", "is_protected", "diff_page", "first_parents", "read", "uncommitted_page"}
    | {"download", "check", "in_progress", "read_attempt", "read_log", "read_workflow"}
    | {"last_polls", "waiting", "list_definitions"}
)


class ProcessDied(BaseException):
    """The process is gone: nothing of it runs any more, its `finally` blocks included."""


# What others do to the worker, and it cannot do to itself. The answer is the line of the story,
# where that is known only afterwards.
Act = Callable[[faults.ExpireLease | faults.Drain | faults.ForeignCommit], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class LateRequest:
    """A request that left and has not arrived."""

    operation: str
    send: Send
    until: faults.Until


CONDUCTOR_PORTS = frozenset({"queue", "definitions", "workflows"})


@final
class Outages:
    """Which services are away, and until when, for all workers on one clock.

    Without a clock, as in a test of one port, a service that is away stays away.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._seconds: Callable[[], float] = float if clock is None else clock.monotonic
        self.until: dict[str, float] = {}

    def begin(self, call: faults.Call, seconds: float) -> None:
        """From now on the service of this call is away; a second outage does not end a longer."""
        service = _service_of(call)
        self.until[service] = max(self._seconds() + seconds, self.until.get(service, 0.0))

    def refuse(self, call: faults.Call) -> None:
        """Raise UnavailableError while the service of this call is away."""
        if self._seconds() < self.until.get(_service_of(call), 0.0):
            raise UnavailableError(f"{call.operation}: connection refused")


def _service_of(call: faults.Call) -> str:
    """The service that a call asks; a call within the machine asks none."""
    port = call.operation.partition(".")[0]
    if port in faults.LOCAL_PORTS:
        return ""
    return CONDUCTOR if port in CONDUCTOR_PORTS else LAKEFS


@final
class FaultInjector(CallGate):
    """The faults of one worker, and how often it called what.

    The workers of an environment share `pending`, because a fault happens once, and each runs one
    attempt. Without an environment a worker has its own faults, from its first call.
    """

    def __init__(
        self,
        pending: list[faults.Fault] | None = None,
        reader: StoryListener | None = None,
        act: Act | None = None,
        means: RealMeans | None = None,
        outages: Outages | None = None,
    ) -> None:
        self._pending = [] if pending is None else pending
        self._reader = reader
        self._act = act
        self._means = means
        self.outages = Outages() if outages is None else outages
        self._number = 1 if reader is None else reader.story.number
        self._counts: Counter[int] = Counter()
        self._released = asyncio.Event()
        self.calls: Counter[str] = Counter()
        self.late: list[LateRequest] = []
        self.dead = False
        self.waits_for: faults.Until | None = None

    def plan(self, *planned: faults.Fault) -> None:
        """Add faults; `nth` counts from now."""
        self._pending.extend(planned)

    def release(self) -> None:
        """Let a standing worker go on."""
        if self.waits_for is not None:
            self._tell("goes on, not knowing that time has passed")
        self.waits_for = None
        self._released.set()

    async def passes(self, call: faults.Call, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Let faults happen before, send, let faults happen after."""
        self._live()
        self.calls[call.operation] += 1
        if not (self._pending or self.outages.until):  # almost every call of almost every test
            return await self._untouched(send)
        due, send = self._by_real_means(self._due(call), call, send)
        await self._inject_all(due, faults.Side.BEFORE, call)
        self._live()
        self.outages.refuse(call)
        self._keep_late(due, call, send)
        lost = any(isinstance(fault, LOSSES) for fault in due)
        answer: object = None
        refusal: Exception | None = None
        try:
            answer = await self._answer(due, send)
        except Exception as error:  # noqa: BLE001 - an answer as well: it can be lost
            refusal = error
        self._live()
        await self._inject_all(due, faults.Side.AFTER, call)
        if lost:
            return lost_answer(call)
        if refusal is not None:
            raise refusal
        return answer

    async def _untouched(self, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        try:
            return await send()
        finally:
            self._live()  # killed while the call was under way: the answer is lost

    async def arrive_late(self) -> object:
        """Let the oldest request that is still on its way arrive, also after its sender's death.

        A refusal is returned, because there is no sender to be told.
        """
        late = self.late.pop(0)
        self._tell(f"a late request arrives: {late.operation}")
        try:
            return await late.send()
        except ServiceError as refusal:
            return refusal

    def _keep_late(self, due: Sequence[faults.Fault], call: faults.Call, send: Send) -> None:
        late = next((fault for fault in due if isinstance(fault, faults.ArriveLate)), None)
        # A read that arrives changes nothing, and its answer is lost.
        if late is not None and not _is_read(call):
            self.late.append(LateRequest(call.operation, self._sent(send), late.until))

    def _sent(self, send: Send) -> Send:
        """The same request with the bytes that left: their file may be gone when it arrives."""
        if not isinstance(send, partial):
            return send
        request = cast("partial[Awaitable[Any]]", send)
        kept: list[object] = []
        for value in request.args:
            if isinstance(value, ObjectUpload):
                directory = Path(mkdtemp(prefix="perago-late-"))
                finalize(self, rmtree, directory, ignore_errors=True)
                copy = copyfile(value.source, directory / "object")
                kept.append(replace(value, source=copy))
            else:
                kept.append(value)
        return partial(request.func, *kept, **request.keywords)

    async def _answer(self, due: Sequence[faults.Fault], send: Send) -> object:
        """What the server answers; None where the request does not reach it."""
        for fault in due:
            if isinstance(fault, faults.LoseRequest | faults.ArriveLate):
                return None
            if isinstance(fault, faults.Answer):
                return fault.value
        return await send()

    def _by_real_means(
        self, due: Sequence[faults.Fault], call: faults.Call, send: Send
    ) -> tuple[Sequence[faults.Fault], Send]:
        """Leave to real means what they bring about; the rest happens at the port."""
        if self._means is None:
            return due, send
        rest: list[faults.Fault] = []
        for fault in due:
            if self._means.can(fault, call):
                send = partial(self._carry, self._means, fault, send)
            else:
                rest.append(fault)
        return rest, send

    async def _carry(self, means: RealMeans, fault: faults.Fault, send: Send) -> Any:  # noqa: ANN401
        self._tell(f"by real means: {_described(fault)}")
        answer = await means.carry(fault, send)
        if isinstance(fault, faults.ExpireLease):
            await self._let_others_act(fault)
        return answer

    async def _inject_all(
        self, due: Sequence[faults.Fault], side: faults.Side, call: faults.Call
    ) -> None:
        for fault in due:
            if fault.moment.side is side:
                await self._inject(fault)
                if isinstance(fault, faults.Outage):
                    self.outages.begin(call, fault.seconds)

    def _due(self, call: faults.Call) -> Sequence[faults.Fault]:
        """The faults whose moment this call is; only those of each time are not used up."""
        due: list[faults.Fault] = []
        for fault in list(self._pending):
            moment = fault.moment
            if moment.attempt != self._number or not self._is_of_task(moment.task):
                continue
            if not moment.is_reached_by(call):
                continue
            self._counts[id(fault)] += 1
            if self._counts[id(fault)] >= moment.nth:
                due.append(fault)
                if not moment.each_time:
                    self._pending.remove(fault)
        return due

    def _is_of_task(self, task: str | None) -> bool:
        if self._reader is None:
            return task is None
        story = self._reader.story
        return task in (None, story.task, story.reference)

    async def _inject(self, fault: faults.Fault) -> None:
        if not isinstance(fault, faults.ForeignCommit):
            self._tell(_described(fault))
        match fault:
            case faults.Crash():
                self.dead = True
                raise ProcessDied
            case faults.Unavailable(moment=moment):
                raise UnavailableError(f"{moment.point}: the server answered 503; nothing was done")
            case faults.Refuse(error=error):
                raise error
            case faults.Zombie(until=until):
                await self._stand_still(until)
            case (
                faults.ExpireLease() | faults.Drain() | faults.ForeignCommit() | faults.Meanwhile()
            ):
                await self._let_others_act(fault)
            case _:
                pass  # `passes` sends the call, or does not, and drops its answer

    async def _let_others_act(
        self, fault: faults.ExpireLease | faults.Drain | faults.ForeignCommit | faults.Meanwhile
    ) -> None:
        if isinstance(fault, faults.Meanwhile):
            # It needs no environment, because the action is the test's own. The story does not tell
            # what it returned, only that the test acted, which `_inject` has told.
            result = fault.action()
            if isawaitable(result):
                await result
            return
        assert self._act is not None, "this fault happens to attempts of an environment only"
        if (done := await self._act(fault)) is not None:
            self._tell(done)

    async def _stand_still(self, until: faults.Until) -> None:
        self._released.clear()
        self.waits_for = until
        await self._released.wait()
        self._live()

    def _tell(self, text: str) -> None:
        if self._reader is not None:
            self._reader.note(EventKind.INJECTED, text)

    def _live(self) -> None:
        """End here if the process is dead: it may have died in any wait, such as for a fault."""
        if self.dead:
            raise ProcessDied


def _is_read(call: faults.Call) -> bool:
    return call.operation.rpartition(".")[2] in READS


def _described(fault: faults.Fault) -> str:
    """What a fault does, for the story."""
    moment = fault.moment
    happenings: dict[type[faults.Fault], str] = {
        faults.Crash: f"the process dies {moment}",
        faults.LoseRequest: f"the request is lost: {moment.point}",
        faults.LoseAnswer: f"the answer is lost: {moment.point}",
        faults.ArriveLate: f"the request is late: {moment.point}",
        faults.Unavailable: f"the server is unavailable: {moment.point}",
        faults.Outage: f"the service is away {moment}",
        faults.Refuse: f"the server refuses: {moment.point}",
        faults.Answer: f"the server does nothing and answers: {moment.point}",
        faults.Zombie: f"the process stops {moment}",
        faults.ExpireLease: f"the lease runs out {moment}",
        faults.Drain: f"the worker is told to stop {moment}",
        faults.ForeignCommit: f"another writer commits {moment}",
        faults.Meanwhile: f"the test acts {moment}",
    }
    until = f", until {fault.until}" if isinstance(fault, faults.Zombie | faults.ArriveLate) else ""
    return happenings[type(fault)] + until


def lost_answer(call: faults.Call) -> object:
    """What a caller sees of a call without an answer: a value or an error, by what it asked."""
    text = f"{call.operation}: the request left and no answer came"
    if call.operation in UNANSWERED_IS_A_VALUE:
        return NoAnswer(text)
    if _is_read(call):
        raise UnavailableError(text)
    raise OutcomeUnknownError(text)


def losing_answers(installation: Installation) -> Installation:
    """The same installation for a worker that never sees an answer; its requests take effect."""
    return faulty_installation(
        installation, FaultInjector([faults.always(faults.lose_answer(faults.ANY_CALL))])
    )
