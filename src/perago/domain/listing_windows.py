"""Which stretches of a listing show a few paths of a large tree with the fewest questions.

Knows order only; the tree it is given is what the listing should hold.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListingWindow:
    """One question: entries with `prefix` after `after`, up to `last`, `amount` at a time."""

    prefix: str
    after: str
    last: str
    amount: int


def windows(
    tree: Sequence[str], wanted: Sequence[str], *, amount_max: int
) -> tuple[ListingWindow, ...]:
    """Cover the wanted paths, both sequences sorted; a lone path is asked for by its name."""
    found: list[ListingWindow] = []
    start = 0
    while start < len(wanted):
        first = bisect_left(tree, wanted[start])
        end = start
        while end < len(wanted) and bisect_left(tree, wanted[end]) - first < amount_max:
            end += 1
        last = wanted[end - 1]
        if end - start == 1:
            found.append(ListingWindow(prefix=last, after="", last=last, amount=1))
        else:
            amount = bisect_left(tree, last) - first + 1
            before = tree[first - 1] if first else ""
            found.append(ListingWindow(prefix="", after=before, last=last, amount=amount))
        start = end
    return tuple(found)
