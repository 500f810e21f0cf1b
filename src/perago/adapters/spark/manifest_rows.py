"""Rows of a manifest on disk, counted before and read whenever somebody goes through them.

One line at a time, whatever their number. Knows JSON lines as Spark writes them.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Generic, TypeVar, cast, final

from perago.ports.errors import WorkspaceLostError

Row = TypeVar("Row")
Line = Mapping[str, object]


@final
class ManifestRows(Collection[Row], Generic[Row]):
    """The rows of one kind, in the order in which they were written."""

    def __init__(
        self,
        place: Path,
        count: int,
        row_of: Callable[[Line], Row],
        kind: str | None = None,
    ) -> None:
        self._place = place
        self._count = count
        self._row_of = row_of
        self._kind = kind

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        if not self._count:
            return
        for line in manifest_lines(self._place):
            if self._kind is None or line["kind"] == self._kind:
                yield self._row_of(line)

    def __contains__(self, row: object) -> bool:
        return any(each == row for each in self)


def path_of(line: Line) -> str:
    """The path of a line."""
    return cast("str", line["path"])


def manifest_lines(place: Path) -> Iterator[Line]:
    """Every line of the parts of a manifest."""
    if not place.is_dir():
        raise WorkspaceLostError(f"{place} is gone: the workspace was forgotten")
    for part in sorted(place.glob("part-*.json")):
        with part.open(encoding="utf-8") as lines:
            for line in lines:
                yield cast("Line", json.loads(line))
