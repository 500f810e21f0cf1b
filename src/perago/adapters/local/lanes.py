"""A bounded number of questions side by side, without owning an event loop.

Knows only the concurrency port: under a sequential one the first lane does all the work.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from perago.ports.concurrency import Concurrency

Item = TypeVar("Item")
Answer = TypeVar("Answer")


async def in_lanes(
    concurrency: Concurrency,
    items: Sequence[Item],
    ask: Callable[[Item], Awaitable[Answer]],
    *,
    lanes_max: int,
) -> list[Answer]:
    """Ask for every item, at most `lanes_max` at a time; answers in the order of the items.

    After the first failure no lane takes another item.
    """
    answers: dict[int, Answer] = {}
    left = iter(enumerate(items))
    failed = [False]

    async def lane() -> None:
        for position, item in _until_failed(left, failed):
            try:
                answers[position] = await ask(item)
            except BaseException:
                failed[0] = True
                raise

    await _together(concurrency, lane, min(lanes_max, len(items)))
    return [answers[position] for position in range(len(items))]


def _until_failed(
    left: Iterator[tuple[int, Item]], failed: list[bool]
) -> Iterator[tuple[int, Item]]:
    while not failed[0]:
        found = next(left, None)
        if found is None:
            return
        yield found


async def _together(
    concurrency: Concurrency, lane: Callable[[], Awaitable[None]], count: int
) -> None:
    if count <= 1:
        if count:
            await lane()
        return
    half = count // 2
    await concurrency.together(
        _together(concurrency, lane, half), _together(concurrency, lane, count - half)
    )
