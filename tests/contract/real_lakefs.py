"""A real lakeFS as the contract suites see it.

Set-up goes through the adapter's own client. Must not know any law.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import final

import pytest

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import LakeFSConfiguration, RetryTerms
from perago.adapters.lakefs.installation import (
    LakeFSBranches,
    LakeFSCommits,
    LakeFSRepositories,
    LakeFSTags,
    covers,
)
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.adapters.system import SystemIdentities
from perago.app.fence.install import install_fence
from perago.app.fence.trust import FenceTools
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.domain.outcome import RelocationRefused
from perago.ports.errors import BrokenActionsError, RequestRefusedError
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import Branches, Commits, Repositories, Tags
from perago.ports.objects import Objects
from perago.testing.contract.cutting_proxy import cutting_proxy
from perago.testing.contract.lakefs_under_test import MAIN, WALK_PAGE, LakeFSUnderTest
from perago_servers import LakefsServer
from perago_servers.http import ask

PROTECTION_LOOKS_MAX = 60
PROTECTION_PAUSE_SECONDS = 0.5
UNCHECKED_TRIES_MAX = 10
ASK_SECONDS = 60.0  # servers and builds share the machine


@final
class RealLakeFS(LakeFSUnderTest):
    """The adapters under test, and set-up on the same server."""

    def __init__(self, client: LakeFSClient, server: LakefsServer) -> None:
        self._server = server
        commits = LakeFSCommits(client)
        commits.walk_page = WALK_PAGE
        self.branches: Branches = LakeFSBranches(client)
        self.commits: Commits = commits
        self.tags: Tags = LakeFSTags(client)
        self._transport = LakeFSObjects(client)
        self.objects: Objects = self._transport
        self.repositories: Repositories = LakeFSRepositories(client)

    def installation(self) -> LakeFSInstallation:
        """The ports of lakeFS as a worker has them."""
        return LakeFSInstallation(
            self.branches,
            self.commits,
            self.tags,
            self.objects,
            self.repositories,
            transport=lambda _concurrency: self._transport,
        )

    @property
    def fence_tools(self) -> FenceTools:
        """What a process needs to install a fence, or to try one."""
        return FenceTools(self.installation(), SystemIdentities())

    async def install_fence(self, repository: RepositoryId) -> CommitId:
        """Bring the fence onto main; the commit that workflows start from."""
        report = await install_fence(self.fence_tools, repository, MAIN)
        assert report.commit is not None
        return report.commit

    async def create_repository(self, *, read_only: bool = False) -> RepositoryId:
        """Create one of a unique name."""
        name = self.unique_name("perago-test")
        await self.tell(
            "POST",
            "/repositories",
            {
                "name": name,
                "storage_namespace": self._server.storage_namespace(name),
                "default_branch": MAIN,
                "read_only": read_only,
            },
        )
        return RepositoryId(name)

    async def commit_unchecked(
        self, repository: RepositoryId, branch: BranchName, files: Mapping[str, bytes]
    ) -> CommitId:
        """Commit once to make the server remember the list of action files, then at once again.

        The list is kept for some seconds; when it was forgotten in between, the broken files are
        taken out and it starts over.
        """
        for _ in range(UNCHECKED_TRIES_MAX):
            await self.commit_files(repository, branch, {})
            try:
                return await self.commit_files(repository, branch, files)
            except BrokenActionsError:
                await self.objects.delete_many(repository, branch, tuple(files))
        raise TimeoutError(f"{branch} never took {sorted(files)}")

    async def protect(self, repository: RepositoryId, pattern: str) -> None:
        """Set the rule and wait until the server refuses to reset a branch to where it is."""
        settings = f"/repositories/{repository}/settings/branch_protection"
        await self.tell("PUT", settings, [{"pattern": pattern}])
        page = await self.branches.list_page(repository, "", show_hidden=True)
        name, head = next(branch for branch in page.items if covers(pattern, branch.name))
        for _ in range(PROTECTION_LOOKS_MAX):
            answer = await self.branches.relocate(repository, name, head)
            if isinstance(answer, RelocationRefused):
                return
            await asyncio.sleep(PROTECTION_PAUSE_SECONDS)
        raise TimeoutError(f"{pattern} was never enforced on {name}")

    @asynccontextmanager
    async def losing_answers(self) -> AsyncGenerator[LakeFSInstallation]:
        """A client behind a proxy that cuts; a read leaves a connection that is kept."""
        async with (
            cutting_proxy(self._server.endpoint) as proxy,
            connected(self._server, proxy.url) as unheard,
        ):
            await unheard.repositories.list_page(amount=1)
            proxy.cut()
            yield unheard.installation()
        assert proxy.answers_lost

    def unique_name(self, prefix: str) -> str:
        """The prefix and some chance."""
        return f"{prefix}-{secrets.token_hex(6)}"

    def ask_past(
        self, repository: RepositoryId, path: str, body: Mapping[str, object]
    ) -> tuple[int, bytes]:
        """Post what no port offers to a path of a repository; status and answer, as they are."""
        return ask(
            "POST",
            f"{self._server.endpoint}/api/v1/repositories/{repository}/{path}",
            body=body,
            basic_auth=(self._server.access_key_id, self._server.secret_access_key),
            timeout_seconds=ASK_SECONDS,
        )

    async def tell(self, method: str, path: str, body: object) -> bytes:
        """Ask the server past the adapter for what no port offers."""
        status, answer = await asyncio.to_thread(
            ask,
            method,
            f"{self._server.endpoint}/api/v1{path}",
            body=body,
            basic_auth=(self._server.access_key_id, self._server.secret_access_key),
        )
        if status >= HTTPStatus.BAD_REQUEST:
            raise RequestRefusedError(f"{method} {path}: {status} {answer!r}")
        return answer


def configuration_of(server: LakefsServer) -> LakeFSConfiguration:
    """How a client reaches a server, as a worker does unless a test says otherwise."""
    return LakeFSConfiguration(
        endpoint_url=server.endpoint,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )


@asynccontextmanager
async def connected(
    server: LakefsServer, endpoint: str | None = None, *, answer_seconds: float = 60.0
) -> AsyncGenerator[RealLakeFS]:
    """Connect to a running server, through another endpoint if one is given."""
    terms = replace(
        configuration_of(server),
        endpoint_url=endpoint or server.endpoint,
        answer_seconds=answer_seconds,
        retry=RetryTerms(seconds_max=1.0),
    )
    client = LakeFSClient(terms)
    try:
        yield RealLakeFS(client, server)
    finally:
        client.close()


@asynccontextmanager
async def open_real_lakefs(request: pytest.FixtureRequest) -> AsyncGenerator[RealLakeFS]:
    """Connect to the lakeFS of this session."""
    server: LakefsServer = request.getfixturevalue("lakefs_server")
    async with connected(server) as harness:
        yield harness
