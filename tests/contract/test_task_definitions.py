"""Laws of perago.ports.conductor: the public suite of the testing kit."""

from perago.testing.contract.task_definitions import *
