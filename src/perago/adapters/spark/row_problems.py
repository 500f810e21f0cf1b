"""An error of a part as a text in a row, and the error again on the driver.

Spark would try a failed task again and hand on a text; a part that met the world's refusal says
so once, and the step raises the same error with the same facts.
"""

import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, cast

from perago.domain.errors import PeragoError
from perago.ports.errors import UnavailableError, WorldError

OURS = "perago."
Row = TypeVar("Row")


class Said(Protocol):
    """What a part says of itself."""

    @property
    def problem(self) -> str | None:
        """Its error as a text."""
        ...


Sayings = TypeVar("Sayings", bound=Said)


def gathered(rows: Any, kind: type[Sayings]) -> list[Sayings]:  # noqa: ANN401 - an RDD
    """What every part said, in order; raises the first problem."""
    said: list[Sayings] = rows.collect()
    for one in said:
        assert isinstance(one, kind)
        if one.problem is not None:
            raise unpacked(one.problem)
    return said


def told(rows: Iterator[Row], as_row: Callable[[str], Row]) -> Iterator[Row]:
    """The rows of a part; its error becomes the last one."""
    try:
        yield from rows
    except (WorldError, PeragoError) as error:
        yield as_row(packed(error))


def packed(error: Exception) -> str:
    """An error as a text: its class, what it says, and its plain facts."""
    kind = type(error)
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
    if not (isinstance(kind, type) and issubclass(kind, WorldError | PeragoError)):
        return UnavailableError(text)
    error = kind.__new__(kind, text)
    Exception.__init__(error, text)
    vars(error).update(facts)
    return error
