"""Perago: Conductor tasks on lakeFS workspaces, published as one transaction."""

from perago._version import __version__

__all__ = ["__version__"]
