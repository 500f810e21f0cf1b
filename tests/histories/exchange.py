"""One line of a history: a request to lakeFS or Conductor, and what was answered, if anything was.

A line that no server took part in has the server `end`: it holds what was found when all was over.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias

Json: TypeAlias = "Mapping[str, Json] | list[Json] | str | int | float | bool | None"

END = "end"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Times are seconds of one clock, that of the recorder."""

    server: str
    who: str
    method: str
    path: str
    asked: float
    answered: float | None = None
    status: int | None = None
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    request: Json = None
    answer: Json = None
    fault: str = ""
    """What became of it on the way, other than nothing."""

    @property
    def settled(self) -> bool:
        """Whether the answer tells what the server did; after a 5xx it may have, or may still."""
        return self.answered is not None and self.status is not None and self.status < 499

    @property
    def succeeded(self) -> bool:
        """Whether the server says that it did it."""
        return self.settled and self.status is not None and self.status < 300

    def line(self) -> str:
        """As JSON, without what is empty."""
        found = {name: value for name, value in asdict(self).items() if value not in ("", {}, None)}
        return json.dumps(found, separators=(",", ":"))


def read_history(path: Path) -> Iterator[Exchange]:
    """The lines of a file, in the order in which they were answered."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield Exchange(**json.loads(line))


def as_map(value: Json) -> Mapping[str, Json]:
    """An object; empty where it is something else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Json) -> list[Json]:
    """A list; empty where it is something else."""
    return value if isinstance(value, list) else []


def as_text(value: Json) -> str:
    """A text; empty where it is something else."""
    return value if isinstance(value, str) else ""
