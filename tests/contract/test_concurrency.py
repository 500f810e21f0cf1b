"""Laws of perago.ports.system."""

import asyncio

import pytest
from tests.contract.local_adapters import CONCURRENCY

from perago.ports.system import Concurrency


@pytest.fixture(params=list(CONCURRENCY))
def concurrency(request: pytest.FixtureRequest) -> Concurrency:
    return CONCURRENCY[request.param]()


async def after_a_pause(answer: int, pauses: int = 1) -> int:
    for _ in range(pauses):
        await asyncio.sleep(0)
    return answer


async def test_S1_together_returns_in_order(concurrency: Concurrency) -> None:
    assert await concurrency.together(after_a_pause(1, 5), after_a_pause(2)) == (1, 2)
    three = concurrency.together3(after_a_pause(1, 9), after_a_pause(2, 5), after_a_pause(3))
    assert await three == (1, 2, 3)


async def test_S2_together_fails_as_one(concurrency: Concurrency) -> None:
    ended: list[str] = []

    async def failing() -> None:
        ended.append("failing")
        raise LookupError

    async def slow(name: str) -> None:
        await after_a_pause(0, 5)
        ended.append(name)

    with pytest.raises(LookupError):
        await concurrency.together(failing(), slow("second"))
    assert sorted(ended) == ["failing", "second"]
    with pytest.raises(LookupError):
        await concurrency.together3(slow("first"), failing(), slow("third"))
    assert sorted(ended) == ["failing", "failing", "first", "second", "third"]


async def test_S3_turns_of_one_name_do_not_overlap(concurrency: Concurrency) -> None:
    inside = 0

    async def visit() -> int:
        nonlocal inside
        async with concurrency.turn("branch"):
            inside += 1
            seen = inside
            await after_a_pause(0, 5)
            inside -= 1
            return seen

    assert await asyncio.gather(*(visit() for _ in range(5))) == [1] * 5


async def test_S4_turns_of_two_names_overlap(concurrency: Concurrency) -> None:
    async with concurrency.turn("one"), asyncio.timeout(5), concurrency.turn("other"):
        pass


async def test_S5_blocking_returns_the_result(concurrency: Concurrency) -> None:
    assert await concurrency.blocking(lambda: 42) == 42
    with pytest.raises(ValueError, match="not a number"):
        await concurrency.blocking(lambda: int("not a number"))


async def test_S6_each_answers_in_order(concurrency: Concurrency) -> None:
    async def tenfold(item: int) -> int:
        return await after_a_pause(item * 10, 9 - item)

    assert await concurrency.each(range(9), tenfold, at_most=3) == [n * 10 for n in range(9)]
    assert await concurrency.each([], tenfold, at_most=3) == []


async def test_S7_each_asks_at_most_so_many(concurrency: Concurrency) -> None:
    inside: set[int] = set()
    most = 0

    async def visit(item: int) -> None:
        nonlocal most
        inside.add(item)
        most = max(most, len(inside))
        await after_a_pause(0, 1 + item % 4)
        inside.remove(item)

    await concurrency.each(range(20), visit, at_most=3)
    assert 1 <= most <= 3


async def test_S8_each_stops_at_a_failure(concurrency: Concurrency) -> None:
    asked: list[int] = []
    ended: list[int] = []

    async def fail_at_two(item: int) -> None:
        asked.append(item)
        if item == 2:
            raise LookupError(item)
        await after_a_pause(0, 5)
        ended.append(item)

    with pytest.raises(LookupError, match="2"):
        await concurrency.each(range(20), fail_at_two, at_most=3)
    assert asked == [0, 1, 2]
    assert ended == [0, 1]
