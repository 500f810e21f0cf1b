"""Laws of perago.ports.conductor: the public suites of the testing kit."""

from perago.testing.contract.task_queue import *
