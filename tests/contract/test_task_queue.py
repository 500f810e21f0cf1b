"""Laws of perago.ports.task_queue: the public suites of the testing kit."""

from perago.testing.contract.task_queue import *
from perago.testing.contract.task_queue_repeats import *
