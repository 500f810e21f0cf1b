"""One thing after the other: concurrency for worlds that a test drives by hand.

Needs no event loop: waiting is a bare yield, which asyncio reads as a pause and a scheduler as its
chance to choose.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TypeVar, final

from perago.adapters.memory.worker_handle import Turn
from perago.ports.system import Concurrency, nothing

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@final
class SequentialConcurrency(Concurrency):
    """Questions in their order, blocking work at once, turns by name."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    async def together(self, first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
        with _forgetting(first, second):
            one = await _ended(first)
            two = await _ended(second)
            return one(), two()

    async def together3(
        self, first: Awaitable[A], second: Awaitable[B], third: Awaitable[C]
    ) -> tuple[A, B, C]:
        with _forgetting(first, second, third):
            one = await _ended(first)
            two = await _ended(second)
            three = await _ended(third)
            return one(), two(), three()

    async def each(
        self, items: Sequence[A], ask: Callable[[A], Awaitable[B]], *, at_most: int
    ) -> list[B]:
        del at_most  # one at a time is never too many
        return [await ask(item) for item in items]

    def turn(self, name: str) -> AbstractAsyncContextManager[None]:
        return self._take_turn(name)

    async def blocking(self, work: Callable[[], A], *, abandon: Callable[[], None] = nothing) -> A:
        del abandon  # nobody can cancel what takes no time
        return work()

    @asynccontextmanager
    async def _take_turn(self, name: str) -> AsyncGenerator[None]:
        while name in self._taken:
            await Turn()
        self._taken.add(name)
        try:
            yield
        finally:
            self._taken.remove(name)


@contextmanager
def _forgetting(*questions: Awaitable[object]) -> Generator[None]:
    """When death ends one question the others are never asked; Python must not warn of that."""
    try:
        yield
    finally:
        for question in questions:
            if isinstance(question, Coroutine):
                question.close()


async def _ended(question: Awaitable[A]) -> Callable[[], A]:
    """Wait for the end of one question, good or bad, and give its result when asked."""
    answers: list[A] = []
    failures: list[Exception] = []
    try:
        answers.append(await question)
    except Exception as failure:  # noqa: BLE001 - raised by the caller once all have ended
        failures.append(failure)

    def result() -> A:
        if failures:
            raise failures[0]
        return answers[0]

    return result
