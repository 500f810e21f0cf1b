"""Bulk transfer over plain HTTP: threads, kept connections, and the routes lakeFS offers."""
