"""Programs that bodies had started and that outlived their executor.

A worker ends them with the executor; one that was killed itself ends nothing, so the next one on
this machine does. They are found by the executor's number in their environment. A program that
left the executor's group wanted to live on, and does.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

from perago.app.worker.process_table import all_processes, environment_of, process_facts

EXECUTOR_VARIABLE = "PERAGO_EXECUTOR"


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
    """A number is not given away while a group has it: whoever has it now is the executor."""
    for pid in all_processes():
        facts = process_facts(pid)
        if facts is None or facts.is_dead or facts.group == pid:
            continue
        executor = process_facts(facts.group)
        if executor is not None and not executor.is_dead:
            continue
        if f"{EXECUTOR_VARIABLE}={facts.group}" in environment_of(pid):
            yield facts.group
