"""What Linux is asked to do for a worker's processes; elsewhere nothing is asked.

One switch each, through `prctl`. Parent and executor decide when to use which.
"""

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4


def die_with_parent() -> None:
    """Have Linux kill this process when its parent dies, whatever a body is doing."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def close_memory_to_others() -> None:
    """Let no other process of this user read the environment, memory or descriptors of this one.

    A body runs as the user of the worker, and `/proc/<parent>/environ` has every key. An executor
    is open again, because exec resets the switch.
    """
    _prctl(PR_SET_DUMPABLE, 0)


def give_no_rights_to_others() -> None:
    """Let no program that is started from here have more rights than its user has.

    A worker with ambient capabilities would pass them on to its executors, and a body could start
    a program that runs as root whoever starts it, like sudo.
    """
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
