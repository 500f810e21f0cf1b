"""The machine as the application sees it: time, working side by side, and new identities."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeVar

from perago.domain.attempt import ExecutionId


class Clock(Protocol):
    """A clock.

    Laws (tests/contract/test_clock.py has one test for each, by name):

    K1 monotonic_never_goes_back: two readings are in order.
    K2 sleep_takes_that_long: at least the asked seconds pass on the monotonic reading.
    K3 now_is_utc: the wall time has the UTC zone.
    """

    def now(self) -> datetime:
        """The wall time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, never going back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


def nothing() -> None:
    """The default of a call back: no caller waits, or the work has no way to be stopped early."""


class Concurrency(Protocol):
    """Side by side and in turn.

    Laws (tests/contract/test_concurrency.py has one test for each, by name):

    S1 together_returns_in_order: results come in the order of the questions.
    S2 together_fails_as_one: the first failure is raised after every question has ended.
    S3 turns_of_one_name_do_not_overlap: two turns of one name run one after the other.
    S4 turns_of_two_names_overlap: turns of different names do not wait for each other.
    S5 blocking_returns_the_result: blocking work is done aside; its result or error comes back.
    S6 each_answers_in_order: the answers come in the order of the items, however long each takes.
    S7 each_asks_at_most_so_many: no more than `at_most` questions are open at the same time.
    S8 each_stops_at_a_failure: after the first failure no further item is asked about; the failure
       is raised after every open question has ended.
    """

    async def together(self, first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
        """Ask two things side by side."""
        ...

    async def together3(
        self, first: Awaitable[A], second: Awaitable[B], third: Awaitable[C]
    ) -> tuple[A, B, C]:
        """Ask three things side by side."""
        ...

    async def each(
        self, items: Sequence[A], ask: Callable[[A], Awaitable[B]], *, at_most: int
    ) -> list[B]:
        """Ask about every item, at most so many at a time."""
        ...

    def turn(self, name: str) -> AbstractAsyncContextManager[None]:
        """Wait for the turn of this name within this process."""
        ...

    async def blocking(self, work: Callable[[], A], *, abandon: Callable[[], None] = nothing) -> A:
        """Do blocking work in a thread, so that other tasks go on.

        When the caller is cancelled, `abandon` is called once so that the work may stop, and a
        moment is waited for its end.
        """
        ...


class Identities(Protocol):
    """A source of identities.

    Laws (tests/contract/test_identities.py has one test for each, by name):

    I1 executions_differ: two new execution ids are never equal.
    I2 execution_ids_are_branch_safe: letters and digits only.
    I3 fractions_stay_in_range: a fraction is at least 0 and below 1.
    I4 execution_ids_tell_their_time: the millisecond they were made at is read off them, because
       garbage collection knows the age of an empty branch from nothing else.
    """

    def new_execution_id(self) -> ExecutionId:
        """A fresh id for one dispatch of an attempt."""
        ...

    def fraction(self) -> float:
        """A number for jitter."""
        ...
