"""The world: one package for each vendor, and the in-memory worlds beside them."""
