"""What brings a fault about for real: a network that is cut, a signal to the process.

A ground may bring such means; then the ports are left alone and the adapters have to notice by
themselves. How a fault is brought about is the means' own business.
"""

from typing import Any, Protocol

from perago.testing.faults import Fault
from perago.testing.points import Call
from perago.testing.struck_ports import Send


class RealMeans(Protocol):
    """Stands outside the worker and strikes around one call."""

    def can(self, fault: Fault, call: Call) -> bool:
        """Whether the fault is brought about by these means; else it strikes at the port."""
        ...

    async def carry(self, fault: Fault, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Send while the fault is in force; the answer, or what the adapter makes of none."""
        ...
