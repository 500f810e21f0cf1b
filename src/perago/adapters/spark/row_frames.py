"""Rows of parts as frames: their columns, from executors or from the files they wrote."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perago.domain.workspace_rows import (
    FoundFile,
    ListedObject,
    PlacedFile,
    PlannedChange,
    SeenChange,
)

_STAMP = "mtime_ns long, ctime_ns long, inode long"
_SAYS = "content_type string, metadata map<string,string>"
COLUMNS: Mapping[type, str] = {
    ListedObject: f"path string, checksum string, size long, {_SAYS}, folded string,"
    " folders map<string,string>",
    PlacedFile: f"path string, md5 string, size long, {_STAMP}, {_SAYS}",
    FoundFile: f"path string, size long, {_STAMP}, problem string",
    PlannedChange: f"kind string, path string, md5 string, size long, source string, {_SAYS},"
    " is_new boolean",
    SeenChange: "path string, kind string, problem string",
}


def frame_of(session: Any, rows: Any, kind: type) -> Any:  # noqa: ANN401 - pyspark stays inside
    """A frame of rows that executors make."""
    return session.createDataFrame(rows, COLUMNS[kind], verifySchema=False)


def table(session: Any, place: Path, kind: type) -> Any:  # noqa: ANN401 - as above
    """A frame of rows that were written."""
    return session.read.schema(COLUMNS[kind]).json(place.as_uri())
