"""The version, in the one place that the build, the CLI and the documents read."""

__version__ = "0.7.0"
