"""Holds a process at every call of its ports, whatever servers stand behind them."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import fields, replace
from typing import Any, TypeVar, cast, final

from tests.simulation.steering import PortCall, SteeredHandle

from perago.domain.outcome import NoAnswer
from perago.ports.errors import OutcomeUnknownError
from perago.testing.fault_injector import CallGate, Send, faulty_port
from perago.testing.faults import Call

Result = TypeVar("Result")
Installation = TypeVar("Installation")
Effect = Callable[[Send], object]

READS = frozenset(
    {"head", "list_page", "is_protected", "diff_page", "first_parents", "read", "uncommitted_page"}
    | {"download", "check", "poll", "read_attempt", "read_log", "read_workflow"}
)
UNANSWERED_IS_A_VALUE = frozenset({"branches.merge", "branches.relocate"})


@final
class Hold(CallGate):
    """Every call of one process is a stop; `effect` says how a request is sent."""

    def __init__(self, handle: SteeredHandle, effect: Effect) -> None:
        self._handle, self._effect = handle, effect

    async def passes(self, call: Call, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Stop, and answer what is decided then."""
        verb = call.operation.rpartition(".")[2]
        about = (*call.arguments, dict(call.options))
        stop = PortCall(
            call.operation, lambda: self._effect(send), reads=verb in READS, about=about
        )
        try:
            return await self._handle.stop(stop)
        except OutcomeUnknownError as lost:
            if call.operation in UNANSWERED_IS_A_VALUE:
                return NoAnswer(str(lost))
            raise


def held(installation: Installation, gate: CallGate) -> Installation:
    """The same installation; every call of it is a stop."""
    value = cast("Any", installation)
    ports = {
        field.name: faulty_port(getattr(value, field.name), field.name, gate)
        for field in fields(value)
        if field.name != "close"
    }
    return cast("Installation", replace(value, **ports))


def at_once(awaitable: Awaitable[Result]) -> Result:
    """The result of a request to servers in memory, which never wait."""
    coroutine = cast("Coroutine[None, None, Result]", awaitable)
    while True:
        try:
            coroutine.send(None)
        except StopIteration as ended:
            return cast("Result", ended.value)
