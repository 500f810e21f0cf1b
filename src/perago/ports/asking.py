"""Asking a service more than once: page by page, and until it answers.

An adapter may repeat a request by itself. The caller that waits is told by `heard_by`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports import lakefs
from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError
from perago.ports.objects import Page
from perago.ports.system import Clock

Item = TypeVar("Item")
Result = TypeVar("Result")

# With a thousand names a page, a thousand million names: no listing is that long. It only ends a
# server that answers "more follow" for ever.
PAGES_MAX = 1_000_000
TRIES_MAX = 5  # a restart of a service takes some seconds; an outage is told, not waited for
PAUSE_SECONDS = 0.5
"""The first pause; each one is longer by as much, so that five tries take at least 5 seconds."""


async def pages(
    ask: Callable[[str], Awaitable[Page[Item]]],
    *,
    after: str = "",
    upto: str | None = None,
    pages_max: int = PAGES_MAX,
) -> AsyncGenerator[Page[Item]]:
    """List page by page from behind `after`; with `upto`, the page that reaches it is the last.

    Raises ServiceError when more follow after `pages_max` pages, because a caller that takes a part
    for the whole would overlook a decision or a changed object.
    """
    for _ in range(pages_max):
        page = await ask(after)
        yield page
        if not page.more or (upto is not None and page.last >= upto):
            return
        after = page.last
    raise ServiceError(f"expected at most {pages_max} pages, and more follow after {after!r}")


async def all_changes(
    commits: lakefs.Commits,
    repository: RepositoryId,
    left: CommitId,
    right: CommitId,
    prefix: str = "",
) -> AsyncGenerator[lakefs.Change]:
    """Every object that differs from left to right, in order of path; a page of them at a time."""
    listed = pages(
        lambda after: commits.diff_page(repository, left, right, prefix=prefix, after=after)
    )
    async with aclosing(listed):  # a caller that has seen enough closes this one only
        async for page in listed:
            for change in page.items:
                yield change


async def all_repositories(repositories: lakefs.Repositories) -> list[RepositoryId]:
    """Every repository that these keys may see, in order."""
    return [name async for page in pages(repositories.list_page) for name in page.items]


async def until_answered(clock: Clock, work: Callable[[], Awaitable[Result]]) -> Result:
    """Do work again while its answer is missing; the last failure is raised.

    For work that may be done twice and that no later pass does when it is given up here, such as
    putting back a branch that no pass of garbage collection would miss.
    """
    for number in range(1, TRIES_MAX):
        try:
            return await work()
        except (UnavailableError, OutcomeUnknownError):
            await clock.sleep(PAUSE_SECONDS * number)
    return await work()


@dataclass(frozen=True, slots=True)
class Repetitions:
    """Is told of requests that an adapter sends again by itself, in the loop of the caller."""

    failed: Callable[[object, ServiceError], object]
    """A request, by any object that stands for it, has failed once more, and is sent again."""
    over: Callable[[object], object]
    """It is not sent again: it was answered, or given up."""


def _unheard(*_facts: object) -> None:
    """The default: no caller listens."""


_UNHEARD = Repetitions(_unheard, _unheard)
# A context variable, because clients are shared by attempts: a request belongs to the attempt in
# whose context it is sent.
_hears = ContextVar("perago_repetitions", default=_UNHEARD)


def hearing() -> Repetitions:
    """What is told in this context."""
    return _hears.get()


@contextmanager
def heard_by(hears: Repetitions) -> Generator[None]:
    """Let this one be told of what the code inside the block repeats."""
    token = _hears.set(hears)
    try:
        yield
    finally:
        # An attempt that is never gone on with is closed by garbage collection, in another context,
        # which has nothing to put back.
        with suppress(ValueError):
            _hears.reset(token)
