"""What Linux says of the processes that run; without /proc there are none to be seen."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROCESSES = Path("/proc")


class ProcessFacts(NamedTuple):
    """One process; a state of Z is one that nobody has waited for yet."""

    state: str
    group: int
    session: int

    @property
    def is_dead(self) -> bool:
        """Whether it only waits to be waited for."""
        return self.state == "Z"


def process_facts(pid: int) -> ProcessFacts | None:
    """What is known of a process, None when there is none of that number."""
    fields = text_of(PROCESSES / str(pid) / "stat").rpartition(")")[2].split()
    return ProcessFacts(fields[0], int(fields[2]), int(fields[3])) if fields else None


def all_processes() -> Iterator[int]:
    """Every process that may be seen."""
    return (int(place.name) for place in PROCESSES.glob("[0-9]*"))


def environment_of(pid: int) -> list[str]:
    """The environment a process was started with; empty for other people's."""
    return text_of(PROCESSES / str(pid) / "environ").split("\0")


def text_of(path: Path) -> str:
    """The text of one of its files, empty once the process is gone."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
