"""Rows of parts as frames: their columns, kept as Parquet, counted while they are written.

The driver sees totals and the first problem only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perago.adapters.spark.row_problems import unpacked
from perago.domain.workspace_rows import (
    FoundFile,
    ListedObject,
    PlacedFile,
    PlannedChange,
    ReadFile,
    SeenChange,
    WrittenBatch,
)

_STAMP = "mtime_ns long, ctime_ns long, inode long"
_SAYS = "content_type string, metadata map<string,string>"
COLUMNS: Mapping[type, str] = {
    ListedObject: f"path string, checksum string, size long, {_SAYS}, folded string,"
    " folders map<string,string>, problem string",
    PlacedFile: f"path string, md5 string, size long, {_STAMP}, {_SAYS}, problem string",
    FoundFile: f"path string, size long, {_STAMP}, problem string",
    ReadFile: f"path string, md5 string, size long, base_md5 string, base_size long, {_SAYS},"
    " problem string",
    PlannedChange: f"kind string, path string, md5 string, size long, source string, {_SAYS},"
    " is_new boolean",
    WrittenBatch: "objects long, bytes long, reused long, requests long, problem string",
    SeenChange: "path string, kind string, problem string",
}


@dataclass(frozen=True, slots=True)
class Kept:
    """A frame that was written, and how much it is."""

    frame: Any
    objects: int
    bytes: int
    newest_ctime_ns: int


def frame_of(session: Any, rows: Any, kind: type) -> Any:  # noqa: ANN401 - pyspark stays inside
    """A frame of rows that executors make."""
    return session.createDataFrame(rows, COLUMNS[kind], verifySchema=False)


def keep(session: Any, rows: Any, kind: type, place: Path) -> Kept:  # noqa: ANN401 - as above
    """Write rows, count them on the way, and raise the problem of a part if there is one."""
    from pyspark.sql import Observation  # noqa: PLC0415 - half a second
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it

    stamped = "ctime_ns" in COLUMNS[kind]
    seen = Observation()
    frame_of(session, rows, kind).observe(
        seen,
        F.count("path").alias("objects"),
        F.sum("size").alias("bytes"),
        F.min("problem").alias("problem"),
        (F.max("ctime_ns") if stamped else F.max(F.lit(0))).alias("newest"),
    ).write.mode("overwrite").parquet(place.as_uri())
    totals = seen.get
    if totals["problem"] is not None:
        raise unpacked(totals["problem"])
    frame = session.read.schema(COLUMNS[kind]).parquet(place.as_uri())
    return Kept(frame, totals["objects"], totals["bytes"] or 0, totals["newest"] or 0)
