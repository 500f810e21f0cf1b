"""Identities from a seed: the same seed names the same executions in the same order.

Must not be used where a name has to be new in the world outside; it is new in one run.
"""

from collections.abc import Callable
from random import Random
from typing import final

from perago.adapters.memory.clock import START
from perago.domain.attempt import ExecutionId
from perago.domain.names import execution_id_at
from perago.ports.system import Identities

START_MS = int(START.timestamp() * 1000)


@final
class SeededIdentities(Identities):
    """Names and chance from one seed; a count keeps two names apart.

    `now_ms` is the clock of its world, because a name tells when it was made; without one, time
    stands where a virtual clock starts.
    """

    def __init__(self, seed: int = 0, *, now_ms: Callable[[], int] = lambda: START_MS) -> None:
        self._now_ms = now_ms
        self._random = Random(seed)  # noqa: S311 - names and jitter, no secrets
        self._count = 0

    def new_execution_id(self) -> ExecutionId:
        self._count += 1
        return execution_id_at(self._now_ms(), self._random.getrandbits(48) << 24 | self._count)

    def fraction(self) -> float:
        return self._random.random()
