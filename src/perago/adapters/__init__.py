"""The outside systems: one package for each vendor, and servers in memory beside them."""
