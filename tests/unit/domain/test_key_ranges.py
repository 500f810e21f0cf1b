"""Ranges of keys: each key in exactly one, and about as many as were wanted."""

import asyncio
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.key_ranges import QUESTIONS_MAX, KeyRange, cut_keys


def cut(keys: list[str], wanted: int, prefix: str = "") -> tuple[list[KeyRange], int]:
    """Cut a list of keys, and count the questions."""
    listing, questions = sorted(keys), [0]

    async def next_key(after: str) -> str | None:
        questions[0] += 1
        place = bisect_right(listing, after)
        return listing[place] if place < len(listing) else None

    return asyncio.run(cut_keys(next_key, prefix, wanted)), questions[0]


@given(st.lists(st.text(min_size=1, max_size=6), unique=True), st.integers(1, 9))
def test_every_key_is_in_exactly_one_range(keys: list[str], wanted: int) -> None:
    ranges, questions = cut(keys, wanted)
    for key in keys:
        assert sum(each.holds(key) for each in ranges) == 1
    assert questions <= 2 * QUESTIONS_MAX


@pytest.mark.parametrize("wanted", [4, 10, 100])
def test_numbered_parts_are_cut_evenly(wanted: int) -> None:
    keys = [f"lake/daily/part-{number:05}.parquet" for number in range(10_000)]
    ranges, questions = cut(keys, wanted, "lake/")
    held = [sum(each.holds(key) for key in keys) for each in ranges]
    assert len(ranges) >= wanted
    assert max(held) <= 10_000 // 10
    assert questions < 200


def test_nothing_is_one_range() -> None:
    ranges, _ = cut([], 8)
    assert ranges == [KeyRange("", None)]
