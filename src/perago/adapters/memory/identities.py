"""Identities from a seed: the same seed names the same executions in the same order.

Must not be used where a name has to be new in the world outside; it is new in one run.
"""

from random import Random
from typing import final

from perago.domain.attempt import ExecutionId
from perago.ports.identities import Identities


@final
class SeededIdentities(Identities):
    """Names and chance from one seed; a count keeps two names apart."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)  # noqa: S311 - names and jitter, no secrets
        self._count = 0

    def new_execution_id(self) -> ExecutionId:
        self._count += 1
        return ExecutionId(f"{self._random.getrandbits(40):010x}{self._count:06x}")

    def fraction(self) -> float:
        return self._random.random()
