"""Laws of perago.ports.conductor: the public suites of the testing kit."""

from perago.testing.contract.workflow_shapes import *
from perago.testing.contract.workflows import *
