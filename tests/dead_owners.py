"""What the kernel does when a process dies, for the attempt directories of a dead worker."""

import os
from contextlib import suppress
from pathlib import Path


def let_locks_go(root: Path) -> None:
    """Close every lock below a root that this process holds, as the end of its process would."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            if entry.readlink().is_relative_to(root) and entry.readlink().suffix == ".lock":
                os.close(int(entry.name))
