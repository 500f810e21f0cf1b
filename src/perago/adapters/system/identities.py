"""Names and chance from the operating system."""

import random
import uuid
from typing import final

from perago.domain.attempt import ExecutionId
from perago.ports.identities import Identities


@final
class SystemIdentities(Identities):
    """Random identities that no other process makes."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def new_execution_id(self) -> ExecutionId:
        return ExecutionId(uuid.uuid4().hex)

    def fraction(self) -> float:
        return self._random.random()
