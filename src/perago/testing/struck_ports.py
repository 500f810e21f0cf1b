"""Ports of one worker with its faults between: the same on memory and on real servers.

The request really travels; only what this worker sees of it is taken away. Knows no port by
name: every coroutine method of a port is one call.
"""

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import Any, Protocol, TypeVar, cast

from perago.testing.points import Call

Port = TypeVar("Port")
Installation = TypeVar("Installation")
Send = Callable[[], Awaitable[Any]]


class CallGate(Protocol):
    """Stands between a worker and its ports."""

    async def passes(self, call: Call, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Let one call through, or not."""
        ...


class StruckPort:
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


def struck_port(port: Port, name: str, gate: CallGate) -> Port:
    """The same port behind a gate."""
    return cast("Port", StruckPort(port, name, gate))


def struck_installation(installation: Installation, gate: CallGate) -> Installation:
    """The same installation, every port of it behind a gate."""
    value = cast("Any", installation)
    ports = {
        field.name: StruckPort(getattr(value, field.name), field.name, gate)
        for field in fields(value)
        if field.name != "close"
    }
    return cast("Installation", replace(value, **ports))
