"""Laws of perago.ports.task_definitions: the public suite of the testing kit."""

from perago.testing.contract.task_definitions import *
