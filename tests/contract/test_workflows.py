"""Laws of perago.ports.workflows: the public suites of the testing kit."""

from perago.testing.contract.workflow_shapes import *
from perago.testing.contract.workflow_steps import *
from perago.testing.contract.workflows import *
