"""Laws of perago.ports.concurrency."""

import asyncio

import pytest
from tests.contract.local_adapters import CONCURRENCY

from perago.ports.concurrency import Concurrency


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
