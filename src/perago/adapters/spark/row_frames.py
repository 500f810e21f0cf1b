"""Rows of parts as frames: their columns, from executors or from the files they wrote."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perago.domain.workspace_rows import (
    ListedObject,
    PlacedFile,
    PlannedChange,
)

_SAYS = "content_type string, metadata map<string,string>"
COLUMNS: Mapping[type, str] = {
    ListedObject: f"path string, checksum string, size long, {_SAYS}, folded string,"
    " folders map<string,string>",
    PlacedFile: f"path string, md5 string, size long, {_SAYS}",
    PlannedChange: f"kind string, path string, md5 string, size long, source string, {_SAYS},"
    " is_new boolean",
}


def lines_of(session: Any, rows: Any) -> Any:  # noqa: ANN401 - pyspark stays inside
    """A frame of lines that executors make, each as the only value of a row."""
    return session.createDataFrame(rows, "value string", verifySchema=False)


def lines(session: Any, place: Path) -> Any:  # noqa: ANN401 - as above
    """A frame of lines that were written."""
    return session.read.text(place.as_uri())


def table(session: Any, place: Path, kind: type) -> Any:  # noqa: ANN401 - as above
    """A frame of rows that were written."""
    return session.read.schema(COLUMNS[kind]).json(place.as_uri())
