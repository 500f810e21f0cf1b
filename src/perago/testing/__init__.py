"""Testing kit: in-memory lakeFS and Conductor, planned faults, and workers that run tasks.

Nothing here is automatic, nothing opens a socket by itself, and each environment has servers of
its own. Names are imported on use, so that the pytest plugin costs a test run nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perago.testing.definitions import fork, fork_branch, sequence
    from perago.testing.environment import PeragoEnvironment, TaskEnvironment
    from perago.testing.faults import (
        ANY_CALL,
        POINTS,
        Answer,
        ArriveLate,
        Crash,
        Drain,
        ExpireLease,
        Fault,
        ForeignCommit,
        LoseAnswer,
        LoseRequest,
        Meanwhile,
        Moment,
        Outage,
        Refuse,
        Unavailable,
        Zombie,
        always,
        answer,
        arrive_late,
        crash,
        drain,
        expire_lease,
        foreign_commit,
        lose_answer,
        lose_request,
        meanwhile,
        outage,
        refuse,
        unavailable,
        zombie,
    )
    from perago.testing.remote_servers import RealServers, RemoteServers
    from perago.testing.servers import MemoryServers, Repository
    from perago.testing.story import AttemptStory, Story, WorkflowRun
    from perago.testing.trial import GuardrailVerdict, TaskRun

__all__ = [
    "ANY_CALL",
    "POINTS",
    "Answer",
    "ArriveLate",
    "AttemptStory",
    "Crash",
    "Drain",
    "ExpireLease",
    "Fault",
    "ForeignCommit",
    "GuardrailVerdict",
    "LoseAnswer",
    "LoseRequest",
    "Meanwhile",
    "MemoryServers",
    "Moment",
    "Outage",
    "PeragoEnvironment",
    "RealServers",
    "Refuse",
    "RemoteServers",
    "Repository",
    "Story",
    "TaskEnvironment",
    "TaskRun",
    "Unavailable",
    "WorkflowRun",
    "Zombie",
    "always",
    "answer",
    "arrive_late",
    "crash",
    "drain",
    "expire_lease",
    "foreign_commit",
    "fork",
    "fork_branch",
    "lose_answer",
    "lose_request",
    "meanwhile",
    "outage",
    "refuse",
    "sequence",
    "unavailable",
    "zombie",
]

# Where the names live; all others are in `faults`.
_HOMES = {
    "definitions": "fork fork_branch sequence",
    "environment": "PeragoEnvironment TaskEnvironment",
    "remote_servers": "RealServers RemoteServers",
    "servers": "MemoryServers Repository",
    "story": "AttemptStory Story WorkflowRun",
    "trial": "GuardrailVerdict TaskRun",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME_OF.get(name, 'faults')}"), name)
    globals()[name] = value
    return value
