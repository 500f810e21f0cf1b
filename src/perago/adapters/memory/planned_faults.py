"""Faults as data: what goes wrong, at which call of which operation.

Says nothing of what an operation does; `worker_handle.py` strikes, tests plan. An operation is
named `port.method` (`branches.merge`); `ANY` counts every call of the worker, whatever its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

ANY = "*"


class When(Enum):
    """On which side of the effect a fault strikes."""

    BEFORE_EFFECT = "before"
    AFTER_EFFECT = "after"


@dataclass(frozen=True, slots=True)
class CrashBefore:
    """The process dies before the request leaves: no effect, no tidying up."""

    operation: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class CrashAfter:
    """The process dies after the effect and before it reads the answer."""

    operation: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class LoseRequest:
    """The request never arrives; the worker lives and sees no answer."""

    operation: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """The effect happens; the worker lives and sees no answer."""

    operation: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Hold:
    """The request stays on the wire: no answer now, and it lands when `release` lets it."""

    operation: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Refuse:
    """The world refuses with this error; nothing happens."""

    operation: str
    error: Exception
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The world answers with this value, one the operation can return; nothing happens."""

    operation: str
    value: object
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Pause:
    """The worker stands still on one side of the effect until `resume`: a zombie in the making."""

    operation: str
    when: When
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Somebody else acts on the same world, on one side of the effect."""

    operation: str
    when: When
    action: Callable[[], object]
    nth: int = 1


Fault: TypeAlias = (
    CrashBefore | CrashAfter | LoseRequest | LoseAnswer | Hold | Refuse | Answer | Pause | Meanwhile
)
