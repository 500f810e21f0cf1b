"""Holds a process at every call of its ports, whatever servers stand behind them."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast, final

from tests.simulation.steering import PortCall, SteeredHandle

from perago.testing.fault_injector import READS, CallGate
from perago.testing.faults import Call
from perago.testing.servers import Send

Result = TypeVar("Result")
Effect = Callable[[Send], object]

# A poll fails as reads do in the search (`SteeredHandle.perform` says why).
FAIL_AS_READS = READS | {"poll"}


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
            call.operation, lambda: self._effect(send), reads=verb in FAIL_AS_READS, about=about
        )
        return await self._handle.stop(stop)


def at_once(awaitable: Awaitable[Result]) -> Result:
    """The result of a request to servers in memory, which never wait."""
    coroutine = cast("Coroutine[None, None, Result]", awaitable)
    while True:
        try:
            coroutine.send(None)
        except StopIteration as ended:
            return cast("Result", ended.value)
