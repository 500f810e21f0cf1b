"""Rows of large workspaces as files of JSON lines: written, read, compared as text, and counted.

`ManifestRows` is a collection that reads its file each time it is iterated. `write_rows` makes a
file visible only when it is whole, because Spark may run the same part twice. `ending_with_problem`
brings an error of a part to the driver as a value.
"""

import importlib
import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast, final

from perago.domain.errors import PeragoError
from perago.domain.sync_plan import ListedObject, PlacedFile, PlannedChange
from perago.ports.errors import ServiceError, UnavailableError, WorkspaceLostError

Row = TypeVar("Row")
Ending = TypeVar("Ending")
Line = Mapping[str, object]
OURS = "perago."  # only these modules are imported by the name that an executor sent
# The first files of a part are small, so that few objects keep every core busy, too. The largest
# are one part of `pipeline_session`: ROWS_PER_PART and BYTES_PER_PART.
ROWS_FIRST, ROWS_MAX = 1_250, 20_000
BYTES_FIRST, BYTES_MAX = 64 * 1024**2, 8 * 1024**3
# A tab stands on both sides of every value and nowhere else, so that a line can be cut by tabs.
BOUNDS = 2
# Rows hold no cycles, and looking for them costs time for each row.
_encode = json.JSONEncoder(separators=("\t,", ":\t"), check_circular=False).encode
_decode = json.JSONDecoder().raw_decode
_SAYS = "content_type string, metadata map<string,string>"
COLUMNS: Mapping[type, str] = {
    ListedObject: f"path string, checksum string, size long, {_SAYS}, folded string,"
    " folders map<string,string>",
    PlacedFile: f"path string, md5 string, size long, {_SAYS}",
    PlannedChange: f"kind string, path string, md5 string, size long, source string, {_SAYS},"
    " is_new boolean",
}


@final
class ManifestRows(Collection[Row], Generic[Row]):
    """The rows of one kind, in the order in which they were written."""

    def __init__(
        self,
        folder: Path,
        count: int,
        row_of: Callable[[Line], Row],
        kind: str | None = None,
    ) -> None:
        self._folder = folder
        self._count = count
        self._row_of = row_of
        self._kind = kind

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        if not self._count:
            return
        if not self._folder.is_dir():
            raise WorkspaceLostError(f"{self._folder} is gone, because its workspace was closed")
        for part in sorted(self._folder.glob("part-*.json")):
            for line in read_rows(self._folder, part.name):
                if self._kind is None or line["kind"] == self._kind:
                    yield self._row_of(line)

    def __contains__(self, row: object) -> bool:
        return any(each == row for each in self)


def path_of(line: Line) -> str:
    """The path of a line."""
    return cast("str", line["path"])


class KeptRows(NamedTuple):
    """One file of rows about objects."""

    name: str
    objects: int = 0
    bytes: int = 0
    newest_ctime_ns: int = 0


class Problem(NamedTuple):
    """The error of a part, as the last of its rows."""

    text: str


def file_name(*numbers: int) -> str:
    """The name of a file; names are in the order of their numbers."""
    return "part-" + "-".join(f"{number:06}" for number in numbers) + ".json"


def write_rows(folder: Path, name: str, rows: Iterable[Any]) -> None:
    """Write named tuples as lines; readers find the file only when it is whole."""
    # A part that was given up may still write, on another host under the same process number: so
    # the name is a random one.
    hidden = folder / f".{name}-{secrets.token_hex(8)}"
    with hidden.open("w", encoding="ascii") as file:
        file.writelines(f"{line_of(row)}\n" for row in rows)
    hidden.replace(folder / name)


def line_of(row: Any) -> str:  # noqa: ANN401 - any named tuple
    """A row as a line."""
    return _encode(row._asdict())


def read_rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The lines of one file."""
    with (folder / name).open(encoding="ascii") as file:
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


def table(session: Any, folder: Path, kind: type) -> Any:  # noqa: ANN401 - pyspark stays inside
    """A frame of rows that were written."""
    return session.read.schema(COLUMNS[kind]).json(folder.as_uri())


def gathered(rows: Any, kind: type[Row]) -> list[Row]:  # noqa: ANN401 - an RDD
    """What every part yields, in order; raises the first problem."""
    found: list[Row] = []
    for row in rows.collect():
        if isinstance(row, Problem):
            raise unpacked(row.text)
        assert isinstance(row, kind)
        found.append(row)
    return found


def with_problem(work: Callable[..., Iterator[Row]], *given: Any) -> Iterator[Row | Problem]:  # noqa: ANN401 - its arguments
    """The rows of a part; its error becomes the last one."""
    return ending_with_problem(work(*given), Problem)


def ending_with_problem(
    rows: Iterator[Row], as_row: Callable[[str], Ending]
) -> Iterator[Row | Ending]:
    """Such rows; `as_row` makes the last one."""
    try:
        yield from rows
    except (ServiceError, PeragoError) as error:
        yield as_row(packed(error))


def packed(error: Exception) -> str:
    """An error as a text: its class, what it says, and its plain facts.

    An error of an adapter of another package travels as the port's error that it is, because
    what follows is decided by that class, and the driver imports no module of another package.
    """
    kind = next(each for each in type(error).__mro__ if each.__module__.startswith(OURS))
    facts = {
        name: value
        for name, value in vars(error).items()
        if isinstance(value, str | int | bool | None)
    }
    return json.dumps([kind.__module__, kind.__qualname__, str(error), facts])


def unpacked(problem: str) -> Exception:
    """The error that was packed; one of a foreign class stands for itself by its text."""
    module, name, text, facts = cast("tuple[str, str, str, dict[str, object]]", json.loads(problem))
    kind: object = None
    if module.startswith(OURS):
        kind = getattr(importlib.import_module(module), name, None)
    if not (isinstance(kind, type) and issubclass(kind, ServiceError | PeragoError)):
        return UnavailableError(text)
    # Not by the class's own `__init__`, which may take other arguments than a text.
    error = kind.__new__(kind, text)
    Exception.__init__(error, text)
    vars(error).update(facts)
    return error
