"""Laws of perago.ports.conductor: the public suites of the testing kit."""

from perago.testing.contract.hand_backs import *
from perago.testing.contract.task_queue import *
