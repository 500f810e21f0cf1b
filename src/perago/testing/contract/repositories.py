"""Laws of perago.ports.lakefs."""

import pytest

from perago.domain.lakefs import RepositoryId
from perago.ports.errors import RepositoryMissingError
from perago.testing.contract.lakefs_under_test import MAIN, LakeFSUnderTest


async def test_R1_read_names_the_default_branch(lakefs_under_test: LakeFSUnderTest) -> None:
    repository = await lakefs_under_test.create_repository()
    facts = await lakefs_under_test.repositories.read(repository)
    assert (facts.repository, facts.default_branch) == (repository, MAIN)
    assert facts.storage_namespace


async def test_R2_unknown_repository(lakefs_under_test: LakeFSUnderTest) -> None:
    with pytest.raises(RepositoryMissingError):
        await lakefs_under_test.repositories.read(RepositoryId("nowhere"))


async def test_R3_read_only_is_said(lakefs_under_test: LakeFSUnderTest) -> None:
    for read_only in (True, False):
        repository = await lakefs_under_test.create_repository(read_only=read_only)
        assert (await lakefs_under_test.repositories.read(repository)).read_only is read_only


async def test_R4_pages_name_every_repository_once(lakefs_under_test: LakeFSUnderTest) -> None:
    first, *others = sorted([await lakefs_under_test.create_repository() for _ in range(3)])
    page = await lakefs_under_test.repositories.list_page(after=first, amount=1)
    assert (len(page.names), page.more) == (1, True)
    found: list[RepositoryId] = []
    while page.more and not set(others) <= set(found):
        page = await lakefs_under_test.repositories.list_page(
            after=found[-1] if found else first, amount=2
        )
        assert len(page.names) <= 2
        found += page.names
    assert set(others) <= set(found)
    assert found == sorted(set(found))
    assert first not in found
