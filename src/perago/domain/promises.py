"""What a policy promises: its columns of the table in docs/guarantees.md, which repeats them.

Each policy's file has its own columns, so that a new policy says there what it promises.
"""

from typing import NamedTuple


class Promises(NamedTuple):
    """How far each promise goes at one level; `guarantees.ROWS` has the promises as sentences."""

    never_lost: str
    never_overwritten: str
    never_stale: str
    at_most_once: str
    on_protected_branches: str
    runs_again: str
