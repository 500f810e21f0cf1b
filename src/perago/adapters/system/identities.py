"""Names and chance from the operating system."""

import random
import time
from typing import final

from perago.domain.attempt import ExecutionId
from perago.domain.names import CHANCE_BITS, execution_id_at
from perago.ports.system import Identities


@final
class SystemIdentities(Identities):
    """Random identities that no other process makes."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def new_execution_id(self) -> ExecutionId:
        return execution_id_at(time.time_ns() // 1_000_000, self._random.getrandbits(CHANCE_BITS))

    def fraction(self) -> float:
        return self._random.random()
