"""Processes of the machine: switches of Linux for this one, and what is left of others.

The switches let this process die with its parent, hide its memory, and take no rights. What
executors left running is found by a variable that every program inherits, and is killed; dead
children of the worker are waited for. Starts nothing.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, final

# Numbers of <linux/prctl.h>: Python has no names for them.
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
PROCESSES = Path("/proc")
# Programs that a task function starts inherit it: it is how `end_left_programs` finds them later.
EXECUTOR_VARIABLE = "PERAGO_EXECUTOR"


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
    a program that always runs as root, like sudo.
    """
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class ProcessFacts(NamedTuple):
    """One process; Z is the state of a dead one whose parent has not waited for it yet."""

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
    return (int(folder.name) for folder in PROCESSES.glob("[0-9]*"))


def environment_of(pid: int) -> list[str]:
    """The environment a process was started with; empty for other people's."""
    return text_of(PROCESSES / str(pid) / "environ").split("\0")


def text_of(path: Path) -> str:
    """The text of one of its files, empty once the process is gone."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


@final
class Orphans:
    """Dead processes that became children of the worker because their own parents died.

    `reap` runs once a second and waits only for those that it saw dead the time before: asyncio
    may be about to wait for a new one, and would find nothing.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def reap(self) -> None:
        """Wait for the zombies that were there last time as well."""
        seen = set(_foreign_zombies())
        for pid in seen & self._seen:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._seen = seen - self._seen


def _foreign_zombies() -> Iterator[int]:
    """Dead children of this process whose session is not its own.

    An executor has a session of its own, and what its functions start comes from there. Children in
    the worker's session are waited for by the code that started them.
    """
    own = os.getsid(0)
    for listed in (PROCESSES / "self" / "task").glob("*/children"):
        for pid in map(int, text_of(listed).split()):
            facts = process_facts(pid)
            if facts is not None and facts.is_dead and facts.session != own:
                yield pid


def mark_programs() -> None:
    """Have every program that this executor starts know who started it."""
    os.environ[EXECUTOR_VARIABLE] = str(os.getpid())


def end_left_programs() -> list[int]:
    """Kill what is left of executors that are gone; the numbers of their groups."""
    ended: list[int] = []
    for group in sorted(set(_left_groups())):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
            ended.append(group)
    return ended


def _left_groups() -> Iterator[int]:
    """The process groups of executors that have died.

    Linux gives no process the number of a group that still has members. So a living process with
    the group's number is the executor itself, and what it started is left alone.
    """
    for pid in all_processes():
        facts = process_facts(pid)
        if facts is None or facts.is_dead or facts.group == pid:
            continue
        executor = process_facts(facts.group)
        if executor is not None and not executor.is_dead:
            continue
        if f"{EXECUTOR_VARIABLE}={facts.group}" in environment_of(pid):
            yield facts.group
