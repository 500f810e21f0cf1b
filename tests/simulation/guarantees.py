"""The page docs/guarantees.md: one table of what is promised at which level, and its prose.

The columns are those of the policies (`PROMISES` in their files); what has no table to come from
is in guarantees_head.md and guarantees_foot.md.
"""

from collections.abc import Sequence
from pathlib import Path

from perago.domain.policy import Level

ROWS = (
    "accepted publication never lost",
    "another writer's commit never overwritten",
    "nothing of an abandoned or stale attempt visible after acceptance",
    "at most one publication of a logical execution",
    "works on protected branches",
    "retry runs the task function again",
)
"""The promises as sentences, in the order of the fields of `Promises`."""

RUN_ROWS = (
    "a target shows a run whole or not at all",
    "a run is published at most once, with the head that was decided",
    "a run is not lost: before its finish, or once it was finished",
)
"""What `perago.begin` and `perago.finish` promise; they need the fence, as `settled` does."""


def column_of(level: Level) -> Sequence[str]:
    """How far each of `ROWS` goes at a level."""
    return level.shape.promises[-1 if level.fenced else 0]


def guarantee_table() -> str:
    """The table as Markdown; its columns are the levels, weakest first."""
    head = ["", *map(_title, Level)]
    rows = zip(ROWS, *map(column_of, Level), strict=True)
    return "\n".join(map(_line, [head, ["---"] * len(head), *rows])) + "\n"


def guarantee_page() -> str:
    """The page, but for what a search has counted."""
    here = Path(__file__).parent
    head, foot = (here / f"guarantees_{part}.md" for part in ("head", "foot"))
    return head.read_text(encoding="utf-8") + guarantee_table() + foot.read_text(encoding="utf-8")


def _title(level: Level) -> str:
    if level.shape.needs_fence:
        return f"`{level.policy}` (needs the fence)"
    return f"`{level.policy}` + fence" if level.fenced else f"`{level.policy}`"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
