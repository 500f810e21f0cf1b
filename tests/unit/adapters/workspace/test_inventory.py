"""Listing a workspace: what is asked, and when."""

from collections import UserList
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from perago.adapters.system import AsyncioConcurrency
from perago.adapters.workspace.inventory import WorkspaceTooLargeError, take_inventory
from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports.objects import ObjectEntry, Page
from perago.ports.workspace import WorkspaceSource

SOURCE = WorkspaceSource(RepositoryId("repository"), CommitId("c"), "data")


class Told(UserList[ObjectEntry]):
    """Entries that tell when they are read."""

    def __init__(self, entries: Iterable[ObjectEntry], log: list[str]) -> None:
        super().__init__(entries)
        self.log = log

    def __iter__(self) -> Iterator[ObjectEntry]:
        """Tell, then give."""
        self.log.append(f"read {self[0].path}")
        return super().__iter__()


class Listing:
    """Pages of two objects."""

    def __init__(self, pages: int) -> None:
        self.log: list[str] = []
        self._names = [f"data/{number:03}" for number in range(2 * pages)]

    async def list_page(self, _repository: object, _ref: object, **asked: Any) -> Page[ObjectEntry]:  # noqa: ANN401 - the port's
        """The page after a path."""
        after: str = asked["after"]
        self.log.append(f"ask after {after or 'nothing'}")
        names = [name for name in self._names if name > after]
        entries: Any = Told((ObjectEntry(name, "c", 1) for name in names[:2]), self.log)
        return Page(entries, more=len(names) > 2, last=names[:2][-1])


async def test_the_next_page_is_asked_for_before_this_one_is_read() -> None:
    listing: Any = Listing(3)
    inventory = await take_inventory(listing, AsyncioConcurrency(), SOURCE)
    assert inventory.names() == [f"{number:03}" for number in range(6)]
    assert inventory.requests == 3
    assert listing.log == [
        "ask after nothing",
        "ask after data/001",
        "read data/000",
        "ask after data/003",
        "read data/002",
        "read data/004",
    ]


async def test_a_workspace_that_is_too_large_is_not_listed_to_its_end() -> None:
    listing: Any = Listing(50)
    with pytest.raises(WorkspaceTooLargeError):
        await take_inventory(listing, AsyncioConcurrency(), SOURCE, objects_max=3)
    assert len([told for told in listing.log if told.startswith("ask")]) == 3
