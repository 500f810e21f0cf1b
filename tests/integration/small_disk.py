"""A directory on a disk that is soon full.

A file system of two MiB where this process may mount one; elsewhere the kernel's own bound on the
size of a file stands in for it.
"""

import resource
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

DISK_BYTES = 2 * 1024 * 1024


@contextmanager
def small_disk(place: Path) -> Generator[Path]:
    """A directory on a disk that takes two MiB."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "perago-test", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode == 0:
        try:
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True)  # noqa: S607 - found by PATH
        return
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, before[1]))
    try:
        yield place
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def is_small(disk: Path) -> bool:
    """Whether the directory is a file system of its own."""
    return disk.is_mount()
