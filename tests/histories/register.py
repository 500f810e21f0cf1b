"""Is a history of one compare-and-swap register linearizable? Wing and Gong's search, remembering.

An operation takes effect at one moment between its request and its answer. One that was never
answered takes effect at any moment after its request, or never. The search looks for an order of
such moments in which every operation finds what it says it found; orders that lead to the same set
of done operations and the same value are tried once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

ABSENT = ""  # the branch or tag is not there
ANYTHING = "*"  # it does not matter what is there
SOMETHING = "+"  # it is there, whatever it is
UNKNOWN = "?"  # what was there before the history began


@dataclass(frozen=True, slots=True)
class Operation:
    """What it found and what it left; None: it changed nothing."""

    name: str
    asked: float
    answered: float | None
    found: str
    left: str | None = None

    @property
    def until(self) -> float:
        """When it had taken effect at the latest."""
        return inf if self.answered is None else self.answered

    def after(self, value: str) -> str | None:
        """The value after it; None where it cannot take effect on this one."""
        known = self.found not in (ANYTHING, SOMETHING)
        if value == UNKNOWN:
            fits, value = True, self.found if known else UNKNOWN
        elif self.found == SOMETHING:
            fits = value != ABSENT
        else:
            fits = not known or value == self.found
        if not fits:
            return None
        return value if self.left is None else self.left


@dataclass(frozen=True, slots=True)
class Stuck:
    """The furthest that any order came."""

    done: int
    value: str
    next: tuple[str, ...]

    def __str__(self) -> str:
        return f"after {self.done} operations, at {self.value[:12]!r}, comes none of {self.next}"


def linearize(operations: Sequence[Operation], value: str = UNKNOWN) -> Stuck | None:
    """None where there is an order; operations without an answer may be left out of it."""
    ordered = sorted(operations, key=lambda each: (each.asked, each.until))
    answered = sum(1 << at for at, each in enumerate(ordered) if each.answered is not None)
    seen = set[tuple[int, str]]()
    waiting = [(0, value)]
    furthest: tuple[int, int, str] = (-1, 0, value)
    while waiting:
        done, now = _finds(ordered, *waiting.pop())
        if answered & ~done == 0:
            return None
        if (done, now) in seen:
            continue
        seen.add((done, now))
        furthest = max(furthest, (done.bit_count(), done, now))
        for at in reversed(_next(ordered, done)):
            after = ordered[at].after(now)
            if after is not None:
                waiting.append((done | 1 << at, after))
    count, done, now = furthest
    stuck = tuple(
        f"{ordered[at].name}: {ordered[at].found[:12]} -> {(ordered[at].left or '')[:12]}"
        for at in _next(ordered, done)
    )
    return Stuck(count, now, stuck)


def _finds(ordered: Sequence[Operation], done: int, value: str) -> tuple[int, str]:
    """Take at once what changes nothing: done earlier, it is in nobody's way."""
    taken = True
    while taken and value != UNKNOWN:
        taken = False
        for at in _next(ordered, done):
            operation = ordered[at]
            if operation.left is None and operation.after(value) == value:
                done |= 1 << at
                taken = True
    return done, value


def _next(ordered: Sequence[Operation], done: int) -> list[int]:
    """Operations that may come next: asked before any that is left was answered."""
    until = inf
    found: list[int] = []
    first = (~done & (done + 1)).bit_length() - 1  # those before it are done
    for at in range(first, len(ordered)):
        if done >> at & 1:
            continue
        if ordered[at].asked > until:
            break
        until = min(until, ordered[at].until)
        found.append(at)
    return [at for at in found if ordered[at].asked <= until]
