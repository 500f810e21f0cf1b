"""What a directory holds now: one walk with lstat, nothing is opened or followed.

Knows neither lakeFS nor what was there before.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perago.domain.reserved_paths import ATTEMPT_MARKER
from perago.ports.errors import RequestRefusedError

SYMLINK_REFUSAL = "workspace publication does not support symlinks: {path}"


class SymlinkError(RequestRefusedError, RuntimeError):
    """A symlink stands in the workspace; lakeFS has no such thing."""

    code = "PRG-W005"

    def __init__(self, path: str) -> None:
        super().__init__(SYMLINK_REFUSAL.format(path=path))
        self.path = path


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """One regular file as lstat shows it."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def stamp(self) -> tuple[int, int, int, int]:
        """The facts that change when somebody touches the file."""
        return self.size, self.mtime_ns, self.ctime_ns, self.inode


def scan(directory: Path, folder: str = "", *, is_deep: bool = True) -> Iterator[ScannedFile]:
    """Every regular file below a directory but the marker, by relative path, in no order.

    A symlink raises; sockets, pipes and devices are skipped; an empty directory is nothing. With
    a folder of the directory only what is below it, not deep only what stands in it.
    """
    pending = [(os.path.join(directory, folder), f"{folder}/" if folder else "")]  # noqa: PTH118
    while pending:
        current, outer = pending.pop()
        with os.scandir(current) as entries:
            for entry in entries:
                path = outer + entry.name
                if entry.is_symlink():
                    raise SymlinkError(path)
                if entry.is_dir(follow_symlinks=False):
                    if is_deep:
                        pending.append((entry.path, f"{path}/"))
                elif entry.name != ATTEMPT_MARKER:
                    facts = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(facts.st_mode):
                        yield scanned(path, facts)


def scanned(path: str, facts: os.stat_result) -> ScannedFile:
    """The stamp of one file from its lstat or fstat."""
    return ScannedFile(path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
