"""What Linux is asked to do for a worker's processes; elsewhere nothing is asked.

One switch each, through `prctl`. Parent and executor decide when to use which.
"""

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4


def die_with_parent() -> None:
    """Have Linux kill this process when its parent dies, whatever a body is doing."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def close_memory_to_others() -> None:
    """Let no other process of this user read the environment, memory or descriptors of this one.

    A body runs as the user of the worker, and `/proc/<parent>/environ` has every key. An executor
    is open again, because exec resets the switch.
    """
    _prctl(PR_SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value)
