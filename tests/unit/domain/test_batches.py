"""A stream in lists of a bounded length."""

from collections.abc import Iterator

import pytest

from perago.domain.sync_plan import batched


@pytest.mark.parametrize(
    ("items", "batches"),
    [([], []), ([1], [[1]]), ([1, 2], [[1, 2]]), ([1, 2, 3], [[1, 2], [3]])],
    ids=["nothing", "less than a list", "one list", "a rest"],
)
def test_every_item_is_in_one_list(items: list[int], batches: list[list[int]]) -> None:
    assert list(batched(items, 2)) == batches


def test_no_more_is_taken_than_a_list_needs() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10):
            taken.append(number)
            yield number

    assert next(batched(items(), 3)) == [0, 1, 2]
    assert taken == [0, 1, 2]
