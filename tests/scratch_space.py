"""Chooses where the tests keep their files: in memory, where the machine has room for them.

They write tens of thousands of small files and run servers that wait for the disk at each commit;
none of it outlives the run. A TMPDIR that somebody set is taken as it is.
"""

import os
from collections.abc import Mapping
from pathlib import Path

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - pytest and the servers make private directories in it
ROOM_BYTES_MIN = 4 * 1024**3


def scratch_space(
    environment: Mapping[str, str],
    in_memory: Path = IN_MEMORY,
    *,
    room_bytes_min: int = ROOM_BYTES_MIN,
) -> Path | None:
    """Return the directory for temporary files, or None for the machine's own choice."""
    if environment.get("TMPDIR") or not os.access(in_memory, os.W_OK):
        return None
    facts = os.statvfs(in_memory)
    has_room = facts.f_bavail * facts.f_frsize >= room_bytes_min
    runs_programs = not facts.f_flag & os.ST_NOEXEC  # Java unpacks libraries there and maps them
    return in_memory if has_room and runs_programs else None
