"""Spark sessions and workspaces."""
