"""Garbage collection: what crashed attempts left on this disk and in lakeFS."""
