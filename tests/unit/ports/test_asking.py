"""Listing page by page, and asking again: the bounds of both."""

from collections.abc import Generator, Sequence
from contextvars import Context
from dataclasses import dataclass, field

import pytest

from perago.adapters.memory.system import VirtualClock
from perago.domain.lakefs import RepositoryId
from perago.ports.asking import PAUSE_SECONDS, TRIES_MAX, heard_by, hearing, pages, until_answered
from perago.ports.errors import (
    MissingError,
    OutcomeUnknownError,
    ServiceError,
    UnavailableError,
)
from perago.ports.objects import Page

NAMES = [RepositoryId(name) for name in "abcdefg"]


@dataclass(slots=True)
class Shelf:
    """Seven names, three on a page; it keeps what it was asked."""

    asked: list[str] = field(default_factory=list[str])

    async def page(self, after: str) -> Page[RepositoryId]:
        """The three names after one."""
        self.asked.append(after)
        left = [name for name in NAMES if name > after]
        return Page(tuple(left[:3]), more=len(left) > 3, last=left[:3][-1])


async def names_of(shelf: Shelf, *, upto: str | None = None, pages_max: int = 9) -> Sequence[str]:
    listed = pages(shelf.page, after="a", upto=upto, pages_max=pages_max)
    return [name async for page in listed for name in page.items]


async def test_every_page_begins_after_the_last_name_of_the_one_before() -> None:
    shelf = Shelf()
    assert await names_of(shelf) == NAMES[1:]
    assert shelf.asked == ["a", "d"]


@pytest.mark.parametrize(("upto", "asked"), [("d", 1), ("e", 2), (None, 2)])
async def test_the_page_that_reaches_the_end_of_a_range_is_the_last(
    upto: str | None, asked: int
) -> None:
    shelf = Shelf()
    await names_of(shelf, upto=upto)
    assert len(shelf.asked) == asked


async def test_a_listing_beyond_its_bound_is_an_error_and_no_short_listing() -> None:
    assert await names_of(Shelf(), pages_max=2) == NAMES[1:]
    with pytest.raises(ServiceError, match="expected at most 1 pages, and more follow after 'd'"):
        await names_of(Shelf(), pages_max=1)


@dataclass(slots=True)
class Service:
    """Fails as planned, then answers."""

    failures: list[ServiceError]
    calls: int = 0

    async def work(self) -> str:
        """Fail or answer."""
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def ended(service: Service, clock: VirtualClock) -> object:
    """What became of asking, and the time it took on the virtual clock."""
    try:
        work = until_answered(clock, service.work)
        while True:
            work.send(None)
            clock.advance(0.25)
    except StopIteration as done:
        return done.value
    except ServiceError as error:
        return error


def test_a_missing_answer_is_asked_for_again_until_it_comes() -> None:
    service = Service([UnavailableError("down"), OutcomeUnknownError("lost")])
    assert ended(service, VirtualClock()) == "done"
    assert service.calls == 3


def test_it_is_given_up_after_five_tries_and_the_last_failure_raised() -> None:
    failures: list[ServiceError] = [UnavailableError(str(number)) for number in range(9)]
    service, clock = Service(failures), VirtualClock()
    assert str(ended(service, clock)) == "4"
    assert service.calls == TRIES_MAX
    assert clock.monotonic() >= PAUSE_SECONDS * (1 + 2 + 3 + 4)


def test_a_refusal_is_an_answer() -> None:
    service = Service([MissingError("no such branch")])
    assert isinstance(ended(service, VirtualClock()), MissingError)
    assert service.calls == 1


def test_work_that_is_given_up_may_be_closed_in_another_context() -> None:
    """As garbage collection closes it, and a search that drives coroutines by hand."""

    def work() -> Generator[None]:
        with heard_by(hearing()):
            yield

    begun = work()
    Context().run(next, begun)
    Context().run(begun.close)
