"""Where lakeFS's three-way merge loses objects without a conflict, and where Perago is safe.

The server compares an object with the next object of the base in order of path, whether or not
it has the same path. So what one side added is taken for unchanged when it has the bytes, type
and metadata of that neighbour. A merge whose target still is its base compares nothing: that is
the only one that is trusted without looking at its result. Seen on 1.86; a test that fails here
after an upgrade is good news.
"""

from collections.abc import AsyncGenerator, Mapping

import pytest
import pytest_asyncio
from tests.contract.real_lakefs import RealLakeFS, connected

from perago.domain.lakefs import BranchName, RepositoryId
from perago.domain.outcome import Merged
from perago.ports.lakefs import MergeRequest
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer

pytestmark = pytest.mark.lakefs

STAGING = BranchName("staging")
BASE: Mapping[str, bytes | None] = {"a": b"0", "neighbour": b"same"}


@pytest_asyncio.fixture
async def harness(lakefs_server: LakefsServer) -> AsyncGenerator[RealLakeFS]:
    async with connected(lakefs_server) as connection:
        yield connection


async def merged(
    harness: RealLakeFS,
    staged: Mapping[str, bytes | None],
    meanwhile: Mapping[str, bytes | None] | None,
) -> dict[str, bytes]:
    """What main holds after a merge of `staged`, when `meanwhile` was committed there."""
    repository: RepositoryId = await harness.create_repository()
    base = await harness.commit_files(repository, MAIN, BASE)
    await harness.branches.create(repository, STAGING, base)
    source = await harness.commit_files(repository, STAGING, staged)
    if meanwhile is not None:
        await harness.commit_files(repository, MAIN, meanwhile)
    answer = await harness.branches.merge(MergeRequest(repository, source, MAIN, "merge"))
    assert isinstance(answer, Merged)
    page = await harness.objects.list_page(repository, answer.commit, prefix="")
    return {
        entry.path: await harness.objects.read(repository, answer.commit, entry.path)
        for entry in page.items
    }


async def test_both_sides_add_an_object_and_one_wins_in_silence(harness: RealLakeFS) -> None:
    found = await merged(harness, {"more": b"ours"}, {"more": b"same"})

    assert found == {"a": b"0", "more": b"ours", "neighbour": b"same"}


async def test_an_object_that_was_staged_is_lost(harness: RealLakeFS) -> None:
    found = await merged(harness, {"copy": b"same"}, {"neighbour": None})

    assert found == {"a": b"0"}


async def test_an_object_that_another_writer_committed_is_lost(harness: RealLakeFS) -> None:
    meanwhile = {"copy": b"same", "neighbour": None, "z": b"1"}

    found = await merged(harness, {"neighbour": None}, meanwhile)

    assert found == {"a": b"0", "z": b"1"}


@pytest.mark.parametrize(
    "staged",
    [
        {"more": b"same"},
        {"copy": b"same", "neighbour": None},
        {"copy": b"same", "a": None},
        {"a": b"same", "neighbour": b"0"},
    ],
    ids=["add a copy", "rename", "copy and delete", "swap"],
)
async def test_a_merge_onto_its_own_base_is_exact(
    harness: RealLakeFS, staged: Mapping[str, bytes | None]
) -> None:
    wanted = {path: content for path, content in {**BASE, **staged}.items() if content is not None}

    assert await merged(harness, staged, None) == wanted
