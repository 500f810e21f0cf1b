"""What a real lakeFS makes of the fence, and what the canary makes of a real lakeFS."""

import json
from collections.abc import AsyncGenerator, Generator

import pytest
import pytest_asyncio
from tests.contract.real_lakefs import RealLakeFS, connected

import perago_servers as servers
from perago.app.fence import trust
from perago.app.fence.trust import WRONG_HEAD
from perago.domain.commit_metadata import EXPECTED_HEAD
from perago.domain.errors import PublicationRefusedError
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.domain.names import CANARY_BRANCH_PREFIX
from perago.domain.outcome import MergeAnswer, Merged
from perago.domain.paths import FENCE_PATH
from perago.ports.lakefs import MergeRequest
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer
from perago_servers.http import ask

pytestmark = pytest.mark.lakefs

STAGING = BranchName("staging")
EVENT = b"  pre-merge:\n"


def replaced(old: bytes, new: bytes) -> bytes:
    """The fence with one thing altered; an alteration that alters nothing is an error."""
    assert old in FENCE_FILE
    return FENCE_FILE.replace(old, new)


ALTERED = {
    "a filter on other branches": replaced(EVENT, b"  pre-merge:\n    branches:\n      - main\n"),
    "another event": replaced(EVENT, b"  pre-commit:\n"),
    "after the merge": replaced(EVENT, b"  post-merge:\n"),
    "a neutered script": replaced(b"if expected ~= nil then", b"if false then"),
    "another key": replaced(b'metadata["perago.expected_head"]', b'metadata["expected_head"]'),
    "a second parent": replaced(b"parents[1]", b"parents[2]"),
    "another text": replaced(b"perago.head_moved", b"head moved"),
    "a script that does not parse": replaced(b"if expected ~= nil then", b"if expected"),
}
# A refusal in other words than ours is told as the server told it: nothing is proven.
REFUSED_BY_NAME = {"another text", "a script that does not parse"}


@pytest_asyncio.fixture
async def harness(lakefs_server: LakefsServer) -> AsyncGenerator[RealLakeFS]:
    async with connected(lakefs_server) as connection:
        yield connection


@pytest.fixture(scope="module")
def server_without_actions() -> Generator[LakefsServer]:
    with servers.lakefs_server(settings={"actions.enabled": False}) as server:
        yield server


async def fenced(
    harness: RealLakeFS, fence: bytes | None = FENCE_FILE
) -> tuple[RepositoryId, CommitId]:
    """A repository whose main branch holds this fence file, and its head."""
    repository = await harness.create_repository()
    files = {"a": b"1"} if fence is None else {"a": b"1", FENCE_PATH: fence}
    return repository, await harness.commit_files(repository, MAIN, files)


async def refuses_wrong_head(
    harness: RealLakeFS, repository: RepositoryId, commit: CommitId
) -> bool:
    return await trust.refuses_wrong_head(harness.fence_tools, repository, commit)


async def publish(
    harness: RealLakeFS, repository: RepositoryId, staged: CommitId, expected: str
) -> MergeAnswer:
    return await harness.branches.merge(
        MergeRequest(repository, staged, MAIN, "publish", {EXPECTED_HEAD: expected})
    )


async def test_the_canary_is_refused_where_the_fence_works(harness: RealLakeFS) -> None:
    repository, head = await fenced(harness)

    assert await refuses_wrong_head(harness, repository, head)


@pytest.mark.parametrize("alteration", ALTERED)
async def test_the_canary_is_silent_over_an_altered_fence(
    harness: RealLakeFS, alteration: str
) -> None:
    repository, head = await fenced(harness, ALTERED[alteration])

    if alteration in REFUSED_BY_NAME:
        with pytest.raises(PublicationRefusedError, match="perago publication fence"):
            await refuses_wrong_head(harness, repository, head)
    else:
        assert not await refuses_wrong_head(harness, repository, head)


async def test_the_canary_is_silent_without_a_fence(harness: RealLakeFS) -> None:
    repository, head = await fenced(harness, None)

    assert not await refuses_wrong_head(harness, repository, head)


async def test_the_canary_is_silent_where_the_server_runs_no_hooks(
    server_without_actions: LakefsServer,
) -> None:
    async with connected(server_without_actions) as harness:
        repository, head = await fenced(harness)

        assert not await refuses_wrong_head(harness, repository, head)


async def test_a_server_without_hooks_lets_a_wrong_expected_head_pass(
    server_without_actions: LakefsServer,
) -> None:
    async with connected(server_without_actions) as harness:
        repository, head = await fenced(harness)
        await harness.branches.create(repository, STAGING, head)
        staged = await harness.commit_files(repository, STAGING, {"a": b"2"})

        answer = await publish(harness, repository, staged, WRONG_HEAD)

        assert isinstance(answer, Merged)
        record = await harness.commits.read(repository, answer.commit)
        assert record.parents == (head,)


async def test_the_canary_leaves_no_branch_and_no_commit_behind(harness: RealLakeFS) -> None:
    repository, head = await fenced(harness)

    await refuses_wrong_head(harness, repository, head)

    page = await harness.branches.list_page(repository, CANARY_BRANCH_PREFIX, show_hidden=True)
    assert page.items == ()
    assert (await harness.branches.head(repository, MAIN)).commit == head


async def test_the_fence_covers_a_branch_that_was_made_after_it(harness: RealLakeFS) -> None:
    repository, head = await fenced(harness)
    scratch = BranchName("scratch")
    await harness.branches.create(repository, STAGING, head)
    await harness.branches.create(repository, scratch, head)
    staged = await harness.commit_files(repository, STAGING, {"a": b"2"})

    answer = await harness.branches.merge(
        MergeRequest(repository, staged, scratch, "publish", {EXPECTED_HEAD: WRONG_HEAD})
    )

    assert not isinstance(answer, Merged)


async def test_no_other_spelling_of_the_head_and_no_option_passes_the_fence(
    harness: RealLakeFS, lakefs_server: LakefsServer
) -> None:
    repository, head = await fenced(harness)
    await harness.branches.create(repository, STAGING, head)
    staged = await harness.commit_files(repository, STAGING, {"a": b"2"})
    merge = f"{lakefs_server.endpoint}/api/v1/repositories/{repository}/refs/{staged}/merge/{MAIN}"
    spellings = ["", MAIN, head[:12], head.upper(), f" {head}", staged, WRONG_HEAD]
    options: list[dict[str, object]] = [
        {},
        {"force": True},
        {"allow_empty": True},
        {"strategy": "source-wins"},
        {"strategy": "dest-wins"},
        {"squash_merge": False},
    ]

    answers = [
        ask(
            "POST",
            merge,
            body={"squash_merge": True, "metadata": {EXPECTED_HEAD: spelling}, **option},
            basic_auth=(lakefs_server.access_key_id, lakefs_server.secret_access_key),
        )
        for spelling in spellings
        for option in options
    ]

    assert {status for status, _ in answers} == {412}
    assert all("perago.head_moved" in json.loads(body)["message"] for _, body in answers)
    assert (await harness.branches.head(repository, MAIN)).commit == head


async def test_the_refusal_names_both_heads(harness: RealLakeFS) -> None:
    repository, head = await fenced(harness)
    await harness.branches.create(repository, STAGING, head)
    staged = await harness.commit_files(repository, STAGING, {"a": b"2"})

    answer = await publish(harness, repository, staged, WRONG_HEAD)

    assert f"perago.head_moved {WRONG_HEAD} {head}" in str(answer)


async def test_a_merge_that_names_no_head_passes(harness: RealLakeFS) -> None:
    repository, head = await fenced(harness)
    await harness.branches.create(repository, STAGING, head)
    staged = await harness.commit_files(repository, STAGING, {"a": b"2"})

    answer = await harness.branches.merge(MergeRequest(repository, staged, MAIN, "by hand"))

    assert isinstance(answer, Merged)
