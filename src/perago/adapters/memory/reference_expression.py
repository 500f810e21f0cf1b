"""What a reference says: a name followed by steps, as in `main~2^2` or `main@`.

Parses only; which commit the name means is the repository's business.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from perago.ports.errors import ReferenceMissingError

_PARTS = re.compile(r"([~^@$])([^~^@$]*)")
_NAME = re.compile(r"[^~^@$]+")


class Step(StrEnum):
    """One step from a commit, or a view of a branch."""

    FIRST_PARENTS = "~"
    PARENT = "^"
    COMMITTED = "@"
    STAGED = "$"


VIEWS = frozenset({Step.COMMITTED, Step.STAGED})


@dataclass(frozen=True, slots=True)
class ReferenceExpression:
    """A name and the steps to take from it, each with its number."""

    name: str
    steps: tuple[tuple[Step, int], ...]

    @property
    def has_staging(self) -> bool:
        """Whether a branch of this name is meant with its uncommitted objects."""
        return not self.steps or self.steps == ((Step.STAGED, 1),)

    @property
    def is_view(self) -> bool:
        """Whether a branch is meant as it is committed, or with what is not."""
        return any(step in VIEWS for step, _ in self.steps)


def parse_reference(text: str) -> ReferenceExpression:
    """Read a reference; one that cannot be read names nothing."""
    name = _NAME.match(text)
    if name is None:
        raise ReferenceMissingError(f"{text!r} is not a reference")
    rest = text[name.end() :]
    steps: list[tuple[Step, int]] = []
    for sign, number in _PARTS.findall(rest):
        step = Step(sign)
        if number and (not number.isdecimal() or step in {Step.COMMITTED, Step.STAGED}):
            raise ReferenceMissingError(f"{text!r}: {sign}{number} is not a step")
        steps.append((step, int(number) if number else 1))
    if len(steps) > 1 and any(step in VIEWS for step, _ in steps):
        raise ReferenceMissingError(f"{text!r}: no step leads to or from a view of a branch")
    return ReferenceExpression(name.group(), tuple(steps))
