"""Rows of parts as files of JSON lines, written where the rows are made.

A file gets its name when it is whole, and a part that is done again writes the same names. The
driver hears how much there is, never what.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

from perago.domain.workspace_rows import ListedObject

# The first files of a part are small, so that few objects keep every core busy, too.
ROWS_FIRST, ROWS_MAX = 1_250, 20_000
BYTES_FIRST, BYTES_MAX = 64 * 1024**2, 8 * 1024**3

# A tab stands on both sides of every value and nowhere else, so that a line can be cut by tabs.
BOUNDS = 2
_encode = json.JSONEncoder(separators=("\t,", ":\t"), check_circular=False).encode
_decode = json.JSONDecoder().raw_decode


class KeptRows(NamedTuple):
    """One file of rows about objects; a `problem` ends the step."""

    name: str
    objects: int = 0
    bytes: int = 0
    newest_ctime_ns: int = 0
    problem: str | None = None


def file_name(*numbers: int) -> str:
    """The name of a file; names are in the order of their numbers."""
    return "part-" + "-".join(f"{number:06}" for number in numbers) + ".json"


def write_rows(place: Path, name: str, rows: Iterable[Any]) -> None:
    """Write named tuples as lines; nobody sees the file before it is whole."""
    # Whoever was given up may still write it, on another host by the same process number.
    hidden = place / f".{name}-{secrets.token_hex(8)}"
    with hidden.open("w", encoding="ascii") as file:
        file.writelines(f"{line_of(row)}\n" for row in rows)
    hidden.replace(place / name)


def line_of(row: Any) -> str:  # noqa: ANN401 - any named tuple
    """A row as a line."""
    return _encode(row._asdict())


def read_rows(place: Path, name: str) -> Iterator[dict[str, Any]]:
    """The lines of one file."""
    with (place / name).open(encoding="ascii") as file:
        yield from map(row_of, file)


def row_of(line: str) -> dict[str, Any]:
    """A line as what a row is made of."""
    return cast("dict[str, Any]", _decode(line)[0])


def portions(rows: Iterable[ListedObject]) -> Iterator[Sequence[ListedObject]]:
    """Rows in lists, each up to twice as much as the last one, by number and by bytes."""
    left = iter(rows)
    rows_max, bytes_max = ROWS_FIRST, BYTES_FIRST
    for first in left:
        portion: list[ListedObject] = []
        size = 0
        for row in chain((first,), left):
            portion.append(row)
            size += row.size
            if len(portion) >= rows_max or size >= bytes_max:
                break
        yield portion
        rows_max, bytes_max = min(2 * rows_max, ROWS_MAX), min(2 * bytes_max, BYTES_MAX)
