"""A network that loses requests and answers between the adapter and a real lakeFS.

Two installations on one server: `far` talks through toxiproxy, `near` sees what really happened.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio
from tests.contract.real_lakefs import RealLakeFS, connected

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.installation import LakeFSRepositories
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, TagName
from perago.domain.outcome import Merged, NoAnswer, Relocated
from perago.domain.paths import FENCE_PATH
from perago.ports.errors import (
    AccessDeniedError,
    OutcomeUnknownError,
    TagExistsError,
    UnavailableError,
)
from perago.ports.lakefs import CommitRequest, MergeRequest
from perago.ports.objects import ObjectUpload
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer, ToxiproxyServer
from perago_servers.toxiproxy import Proxy

pytestmark = pytest.mark.lakefs

STAGING = BranchName("staging")
TAG = TagName("decision")
ANSWER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A repository with a staged commit on its input, and the two ways to its server."""

    near: RealLakeFS
    far: RealLakeFS
    proxy: Proxy
    repository: RepositoryId
    input_ref: CommitId
    staged: CommitId

    @property
    def merge(self) -> MergeRequest:
        """The publication of the staged commit."""
        return MergeRequest(
            self.repository, self.staged, MAIN, "publish", timeout_seconds=ANSWER_SECONDS
        )

    async def published(self) -> int:
        """How many commits stand on the input."""
        walk = await self.near.commits.first_parents(
            self.repository, MAIN, self.input_ref, commits_max=10
        )
        return len(walk.above)


@pytest_asyncio.fixture
async def scene(lakefs_server: LakefsServer, toxiproxy: ToxiproxyServer) -> AsyncGenerator[Scene]:
    with toxiproxy.proxied(lakefs_server.endpoint) as proxy:
        async with (
            connected(lakefs_server) as near,
            connected(lakefs_server, proxy.endpoint, answer_seconds=ANSWER_SECONDS) as far,
        ):
            repository = await near.create_repository()
            input_ref = await near.commit_files(repository, MAIN, {"a": b"1"})
            await near.branches.create(repository, STAGING, input_ref)
            staged = await near.commit_files(repository, STAGING, {"a": b"2"})
            # A kept connection, as a worker has one.
            await far.branches.head(repository, MAIN)
            yield Scene(near, far, proxy, repository, input_ref, staged)


def lose_answers(proxy: Proxy) -> None:
    proxy.add_toxic("timeout", direction="downstream", timeout=0)


def cut_answers(proxy: Proxy) -> None:
    proxy.add_toxic("limit_data", direction="downstream", bytes=1)


def reset_answers(proxy: Proxy) -> None:
    proxy.add_toxic("reset_peer", direction="downstream", timeout=0)


def lose_requests(proxy: Proxy) -> None:
    proxy.add_toxic("timeout", direction="upstream", timeout=0)


LOST_ANSWERS = pytest.mark.parametrize(
    "fault", [lose_answers, cut_answers, reset_answers], ids=["black hole", "cut", "reset"]
)
Fault = Callable[[Proxy], None]


@LOST_ANSWERS
async def test_a_merge_whose_answer_is_lost_is_unanswered_and_happened_once(
    scene: Scene, fault: Fault
) -> None:
    fault(scene.proxy)

    answer = await scene.far.branches.merge(scene.merge)

    assert isinstance(answer, NoAnswer)
    assert await scene.published() == 1


@LOST_ANSWERS
async def test_a_tag_whose_answer_is_lost_is_unknown_and_taken(scene: Scene, fault: Fault) -> None:
    fault(scene.proxy)

    with pytest.raises(OutcomeUnknownError):
        await scene.far.tags.create(scene.repository, TAG, scene.staged)

    assert await scene.near.tags.read(scene.repository, TAG) == scene.staged
    with pytest.raises(TagExistsError):
        await scene.near.tags.create(scene.repository, TAG, scene.input_ref)


@LOST_ANSWERS
async def test_a_relocation_whose_answer_is_lost_is_unanswered_and_happened(
    scene: Scene, fault: Fault
) -> None:
    fault(scene.proxy)

    answer = await scene.far.branches.relocate(
        scene.repository, MAIN, scene.staged, timeout_seconds=ANSWER_SECONDS
    )

    assert isinstance(answer, NoAnswer)
    assert (await scene.near.branches.head(scene.repository, MAIN)).commit == scene.staged


async def test_a_merge_lost_on_its_way_is_unanswered_and_did_not_happen(scene: Scene) -> None:
    lose_requests(scene.proxy)

    answer = await scene.far.branches.merge(scene.merge)

    assert isinstance(answer, NoAnswer)
    assert await scene.published() == 0


async def late_merge(scene: Scene, request: MergeRequest) -> int:
    """Give up a merge that is still on its way; how many commits stand on the input then."""
    scene.proxy.add_toxic("latency", direction="upstream", latency=1000)
    answer = await scene.far.branches.merge(replace(request, timeout_seconds=0.3))
    assert isinstance(answer, NoAnswer)
    assert await scene.published() == 0
    await asyncio.sleep(2)
    return await scene.published()


async def test_a_merge_that_was_given_up_can_still_arrive(scene: Scene) -> None:
    assert await late_merge(scene, scene.merge) == 1


async def test_the_fence_refuses_a_late_merge_on_a_head_that_moved(scene: Scene) -> None:
    fence = {FENCE_PATH: FENCE_FILE}
    fenced = await scene.near.commit_files(scene.repository, STAGING, fence)
    request = replace(scene.merge, source=fenced, metadata={"perago.expected_head": scene.staged})

    assert await late_merge(scene, request) == 0


async def test_a_merge_has_its_own_time_out(scene: Scene) -> None:
    scene.proxy.add_toxic("latency", direction="downstream", latency=1000)

    short = await scene.far.branches.merge(replace(scene.merge, timeout_seconds=0.3))
    long = await scene.far.branches.merge(replace(scene.merge, timeout_seconds=30.0))

    assert isinstance(short, NoAnswer)
    assert isinstance(long, Merged)


async def every_write(scene: Scene, source: Path) -> list[Callable[[], Awaitable[object]]]:
    source.write_bytes(b"3")  # noqa: ASYNC240 - one byte
    await scene.near.write(scene.repository, STAGING, "b", b"3")
    far, repository = scene.far, scene.repository
    return [
        lambda: far.branches.create(repository, BranchName("other"), scene.staged),
        lambda: far.commits.commit(CommitRequest(repository, STAGING, "m", {})),
        lambda: far.objects.upload(repository, STAGING, ObjectUpload("c", source)),
        lambda: far.objects.delete_many(repository, STAGING, ["a"]),
        lambda: far.objects.copy(
            repository, STAGING, source_ref=scene.staged, source_path="a", target_path="d"
        ),
        lambda: far.tags.delete(repository, TAG),
        lambda: far.branches.delete(repository, STAGING),
    ]


async def test_every_write_that_is_not_answered_is_unknown(scene: Scene, tmp_path: Path) -> None:
    writes = await every_write(scene, tmp_path / "source")
    cut_answers(scene.proxy)

    for write in writes:
        with pytest.raises(OutcomeUnknownError):
            await write()


async def test_nothing_is_sent_to_a_port_without_a_server(scene: Scene, tmp_path: Path) -> None:
    writes = await every_write(scene, tmp_path / "source")
    scene.proxy.set_enabled(enabled=False)
    writes.append(lambda: scene.far.branches.merge(scene.merge))
    writes.append(lambda: scene.far.branches.relocate(scene.repository, MAIN, scene.staged))

    # One round lets go of the kept connection, which was cut: that one may have been a request.
    with pytest.raises((OutcomeUnknownError, UnavailableError)):
        await scene.far.tags.delete(scene.repository, TAG)
    for write in writes:
        with pytest.raises(UnavailableError):
            await write()

    assert await scene.published() == 0


@LOST_ANSWERS
async def test_a_read_that_is_not_answered_is_unavailable(scene: Scene, fault: Fault) -> None:
    fault(scene.proxy)

    with pytest.raises(UnavailableError):
        await scene.far.tags.read(scene.repository, TAG)


async def test_a_kept_connection_that_was_cut_costs_a_read_nothing(scene: Scene) -> None:
    scene.proxy.set_enabled(enabled=False)
    scene.proxy.set_enabled(enabled=True)

    assert (await scene.far.branches.head(scene.repository, MAIN)).commit == scene.input_ref


async def test_a_download_that_is_cut_leaves_no_file(scene: Scene, tmp_path: Path) -> None:
    await scene.near.write(scene.repository, STAGING, "large", b"0123456789" * 100_000)
    scene.proxy.add_toxic("limit_data", direction="downstream", bytes=500_000)

    with pytest.raises(UnavailableError):
        await scene.far.objects.download(scene.repository, STAGING, "large", tmp_path / "target")

    assert not list(tmp_path.iterdir())  # noqa: ASYNC240 - an empty directory


async def test_after_the_network_is_back_the_same_client_works(scene: Scene) -> None:
    lose_answers(scene.proxy)
    with pytest.raises(UnavailableError):
        await scene.far.branches.head(scene.repository, MAIN)

    scene.proxy.remove_toxics()

    assert isinstance(await scene.far.branches.merge(scene.merge), Merged)
    relocated = await scene.far.branches.relocate(scene.repository, MAIN, scene.input_ref)
    assert relocated == Relocated()


def client_of(
    server: LakefsServer, *, endpoint: str | None = None, secret: str | None = None
) -> LakeFSClient:
    return LakeFSClient(
        LakeFSConfiguration(
            endpoint_url=endpoint or server.endpoint,
            access_key_id=server.access_key_id,
            secret_access_key=secret or server.secret_access_key,
        )
    )


@pytest.mark.parametrize("suffix", ["", "/", "/api", "/api/v1", "/api/v1/"])
async def test_every_spelling_of_the_right_address_is_understood(
    lakefs_server: LakefsServer, suffix: str
) -> None:
    client = client_of(lakefs_server, endpoint=lakefs_server.endpoint + suffix)

    await LakeFSRepositories(client).list_page()

    client.close()


async def test_a_web_page_instead_of_the_api_is_one_clear_error(
    lakefs_server: LakefsServer,
) -> None:
    client = client_of(lakefs_server, endpoint=f"{lakefs_server.endpoint}/ui/api/v1")

    with pytest.raises(UnavailableError, match="unusable answer '<!DOCTYPE html>"):
        await LakeFSRepositories(client).list_page()

    client.close()


async def test_another_server_is_one_clear_error(
    lakefs_server: LakefsServer, toxiproxy: ToxiproxyServer
) -> None:
    client = client_of(lakefs_server, endpoint=toxiproxy.endpoint)

    with pytest.raises(UnavailableError, match="no lakeFS API"):
        await LakeFSRepositories(client).list_page()

    client.close()


async def test_wrong_credentials_are_refused(lakefs_server: LakefsServer) -> None:
    client = client_of(lakefs_server, secret="wrong")

    with pytest.raises(AccessDeniedError):
        await LakeFSRepositories(client).list_page()

    client.close()


async def test_a_port_without_a_server_is_named(
    lakefs_server: LakefsServer, toxiproxy: ToxiproxyServer
) -> None:
    with toxiproxy.proxied(lakefs_server.endpoint) as proxy:
        proxy.set_enabled(enabled=False)
        client = client_of(lakefs_server, endpoint=proxy.endpoint)

        with pytest.raises(UnavailableError, match="nothing was sent"):
            await LakeFSRepositories(client).list_page()

        client.close()
