"""Laws of perago.ports.branches: the public suites of the testing kit."""

from perago.testing.contract.branches import *
from perago.testing.contract.merges import *
