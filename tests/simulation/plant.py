"""What a planted bug is."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plant:
    """One wrong change: where, what, and the mixes in which to look for it."""

    name: str
    function: str
    old: str
    new: str
    mixes: Sequence[str] = ("core",)
