"""Laws of perago.ports.objects: the public suite of the testing kit."""

from perago.testing.contract.objects import *
