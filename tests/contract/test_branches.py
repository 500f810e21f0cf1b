"""Laws of perago.ports.lakefs: the public suites of the testing kit."""

from perago.testing.contract.branches import *
from perago.testing.contract.merges import *
