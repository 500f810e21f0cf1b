"""A stream in lists of a bounded length, so that nobody holds all of it."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def batched(items: Iterable[Item], amount: int) -> Iterator[list[Item]]:
    """The items in lists of so many; the last one may be shorter."""
    left = iter(items)
    while batch := list(islice(left, amount)):
        yield batch
