"""Cuts a listing into ranges of keys that are listed apart: pure search, one question a step.

Every key is in exactly one range whatever the cuts are; only the balance depends on them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

LAST_CHARACTER = "\U0010ffff"
QUESTIONS_MAX = 400

NextKey = Callable[[str], Awaitable[str | None]]
"""The first key of the listing after a text, or None."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys greater than `after`, up to `upto`; None has no end."""

    after: str
    upto: str | None

    def holds(self, key: str) -> bool:
        """Whether a key of the listing is in this range."""
        return key > self.after and (self.upto is None or key <= self.upto)


async def cut_keys(next_key: NextKey, prefix: str, wanted: int) -> list[KeyRange]:
    """Follow the keys character by character until there are enough beginnings."""
    beginnings, asked = [prefix], 0
    while len(beginnings) < wanted and asked < QUESTIONS_MAX:
        deeper: list[str] = []
        for beginning in beginnings:
            children, questions = await _children(next_key, beginning)
            asked += questions
            deeper.extend(children)
            if asked >= QUESTIONS_MAX:
                break
        if len(deeper) < len(beginnings):  # keys that end here, or the questions ran out
            break
        beginnings = deeper
    cuts = sorted(beginnings)[1:]
    return [KeyRange(after, upto) for after, upto in zip(["", *cuts], [*cuts, None], strict=True)]


async def _children(next_key: NextKey, beginning: str) -> tuple[list[str], int]:
    """The distinct beginnings that are one character longer."""
    found: list[str] = []
    after, asked = beginning, 0
    while asked < QUESTIONS_MAX:
        key = await next_key(after)
        asked += 1
        if key is None or not key.startswith(beginning):
            break
        found.append(key[: len(beginning) + 1])
        after = found[-1] + LAST_CHARACTER
    return found, asked
