"""Laws of perago.ports.repositories: the public suite of the testing kit."""

from perago.testing.contract.repositories import *
