"""Real ports that can be struck: the process dies around a call, or its answer is lost.

The request really travels; only what this side sees of it is taken away. Knows no port by name:
every coroutine method of a port is one remote call.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, TypeVar, cast

from perago.domain.outcome import NoAnswer
from perago.ports.errors import OutcomeUnknownError, UnavailableError

EFFECTS = frozenset(
    {"create", "delete", "commit", "upload", "delete_many", "copy", "complete", "extend_lease"}
)
ANSWERED_EFFECTS = frozenset({"merge", "relocate"})

Installation = TypeVar("Installation")


class ProcessDied(BaseException):
    """Nothing of the struck process runs any more."""


class Strike(StrEnum):
    """What happens at the chosen call."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    LOSE_ANSWER = "lose answer"


@dataclass
class StrikePlan:
    """Counts remote calls and strikes at one of them."""

    strike: Strike | None = None
    nth: int = 0
    dead: bool = False

    def __post_init__(self) -> None:
        self.calls: Counter[str] = Counter()

    async def call(self, name: str, method: Callable[..., Awaitable[Any]], *args: Any) -> Any:  # noqa: ANN401
        """Let one call through, unless this is the one."""
        if self.dead:
            raise ProcessDied
        self.calls[name] += 1
        due = self.strike if self.calls.total() == self.nth else None
        if due is Strike.CRASH_BEFORE:
            self.dead = True
            raise ProcessDied
        answer = await method(*args[0], **args[1])
        if due is Strike.CRASH_AFTER:
            self.dead = True
            raise ProcessDied
        return answer if due is None else self._lost(name)

    def _lost(self, name: str) -> object:
        verb = name.rsplit(".", 1)[-1]
        if verb in ANSWERED_EFFECTS:
            return NoAnswer(f"{name}: the answer was lost")
        if verb in EFFECTS:
            raise OutcomeUnknownError(f"{name}: the answer was lost")
        raise UnavailableError(f"{name}: the answer was lost")


class StruckPort:
    """One port behind a plan."""

    def __init__(self, port: object, name: str, plan: StrikePlan) -> None:
        self._port = port
        self._name = name
        self._plan = plan

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._port, verb)

        async def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401
            return await self._plan.call(f"{self._name}.{verb}", method, args, options)

        return call


def struck(installation: Installation, plan: StrikePlan) -> Installation:
    """The same installation, every port of it behind the plan."""
    value = cast("Any", installation)
    ports = {
        field.name: StruckPort(getattr(value, field.name), field.name, plan)
        for field in fields(value)
        if field.name != "close"
    }
    return cast("Installation", replace(value, **ports))
