"""Paths of a Spark workspace: relative to the prefix on one side, URIs on the other. Pure."""

from perago.domain.prefix_projection import listing_prefix
from perago.domain.spark_errors import ReadOnlyWorkspaceError, SparkPathError
from perago.ports.spark_workspace import SparkPlace


def input_uri(place: SparkPlace, path: str) -> str:
    """What Spark opens at the input commit."""
    return f"{place.input_root}{listing_prefix(place.prefix)}{_inside(path)}"


def output_uri(place: SparkPlace, path: str) -> str:
    """What Spark opens on the private branch."""
    inside = _inside(path)
    if place.output_root is None:
        raise ReadOnlyWorkspaceError(path)
    return f"{place.output_root}{listing_prefix(place.prefix)}{inside}"


def _inside(path: str) -> str:
    """A trailing slash is fine; everything that could lead out is not."""
    stripped = path.rstrip("/")
    segments = stripped.split("/")
    if (
        not stripped
        or "\\" in path
        or ":" in segments[0]
        or not {"", ".", ".."}.isdisjoint(segments)
    ):
        raise SparkPathError(path)
    return stripped
