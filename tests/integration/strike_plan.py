"""Strikes one numbered remote call of an attempt: its process dies, or the answer is lost.

A gate for the kit's struck ports. Counts every call, whoever serves it.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from perago.testing.fault_injector import CallGate, ProcessDied, Send, lost_answer
from perago.testing.faults import Call


class Strike(StrEnum):
    """What happens at the chosen call."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    LOSE_ANSWER = "lose answer"


@dataclass
class StrikePlan(CallGate):
    """Counts remote calls and strikes at one of them."""

    strike: Strike | None = None
    nth: int = 0
    dead: bool = False
    calls: Counter[str] = field(default_factory=Counter[str])

    async def passes(self, call: Call, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Let one call through, unless this is the one."""
        if self.dead:
            raise ProcessDied
        self.calls[call.operation] += 1
        due = self.strike if self.calls.total() == self.nth else None
        if due is Strike.CRASH_BEFORE:
            self.dead = True
            raise ProcessDied
        answer = await send()
        if due is Strike.CRASH_AFTER:
            self.dead = True
            raise ProcessDied
        return answer if due is None else lost_answer(call)
