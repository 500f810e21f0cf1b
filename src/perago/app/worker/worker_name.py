"""What a worker calls itself to Conductor, and which domain it serves.

The name is unique for each start of a process: two attempts of one row must never look alike.
"""

import os
import re
import socket
from collections.abc import Mapping

CHARACTERS_MAX = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def worker_incarnation(prefix: str, chance: str) -> str:
    """`prefix-host-pid-chance`, short enough for every store.

    The end of `chance`: an execution id begins with the time, so that two starts of one container
    within a minute would have the same beginning.
    """
    host = _UNSAFE.sub("-", socket.gethostname())
    tail = f"-{os.getpid()}-{chance[-8:]}"
    return f"{prefix}-{host}"[: CHARACTERS_MAX - len(tail)] + tail


def domain_of(task_name: str, environment: Mapping[str, str]) -> str | None:
    """The domain of one task, by conductor-python's variables; its own wins over all tasks'."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", task_name)
    for key in (
        f"CONDUCTOR_WORKER_{name.upper()}_DOMAIN",
        f"conductor_worker_{name}_domain",
        "CONDUCTOR_WORKER_ALL_DOMAIN",
        "conductor_worker_all_domain",
    ):
        value = environment.get(key, "").strip()
        if value:
            return value
    return None
