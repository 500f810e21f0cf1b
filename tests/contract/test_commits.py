"""Laws of perago.ports.commits: the public suite of the testing kit."""

from perago.testing.contract.commits import *
