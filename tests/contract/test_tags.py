"""Laws of perago.ports.tags: the public suite of the testing kit."""

from perago.testing.contract.tags import *
