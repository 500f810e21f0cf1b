"""Laws of perago.ports.lakefs: the public suite of the testing kit."""

from perago.testing.contract.tags import *
