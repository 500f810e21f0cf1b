"""A real lakeFS as the contract suites see it.

Set-up goes through the adapter's own client. Must not know any law.
"""

import asyncio
import secrets
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import final

import pytest
from tests.contract.lakefs_under_test import MAIN, WALK_PAGE, LakeFSUnderTest

from perago.adapters.lakefs.client import LakeFSClient
from perago.adapters.lakefs.configuration import LakeFSConfiguration, RetryTerms
from perago.adapters.lakefs.installation import (
    LakeFSBranches,
    LakeFSCommits,
    LakeFSRepositories,
    LakeFSTags,
)
from perago.adapters.lakefs.objects import LakeFSObjects
from perago.adapters.lakefs.protection import covers
from perago.domain.lakefs import NO_METADATA, BranchName, CommitId, RepositoryId
from perago.domain.outcome import RelocationRefused
from perago.ports.errors import BrokenActionsError, RequestRefusedError
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import CommitRequest
from perago.ports.objects import DEFAULT_CONTENT_TYPE, ObjectUpload
from perago.testing.contract.cutting_proxy import cutting_proxy
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
        self._client = client
        self._server = server
        self._branches = LakeFSBranches(client)
        self._commits = LakeFSCommits(client)
        self._commits.walk_page = WALK_PAGE
        self._tags = LakeFSTags(client)
        self._objects = LakeFSObjects(client)
        self._repositories = LakeFSRepositories(client)

    @property
    def branches(self) -> LakeFSBranches:
        """The branches under test."""
        return self._branches

    @property
    def commits(self) -> LakeFSCommits:
        """The commits under test."""
        return self._commits

    @property
    def tags(self) -> LakeFSTags:
        """The tags under test."""
        return self._tags

    @property
    def objects(self) -> LakeFSObjects:
        """The objects under test."""
        return self._objects

    @property
    def repositories(self) -> LakeFSRepositories:
        """The repositories under test."""
        return self._repositories

    def installation(self) -> LakeFSInstallation:
        """The ports of lakeFS as a worker has them."""
        return LakeFSInstallation(
            self._branches,
            self._commits,
            self._tags,
            self._objects,
            self._repositories,
            transport=lambda _concurrency: self._objects,
        )

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

    async def write(
        self,
        repository: RepositoryId,
        branch: BranchName,
        path: str,
        content: bytes,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> None:
        """Upload one object."""
        with tempfile.NamedTemporaryFile() as source:
            source.write(content)
            source.flush()
            upload = ObjectUpload(path, Path(source.name), content_type, metadata)
            await self._objects.upload(repository, branch, upload)

    async def commit_files(
        self,
        repository: RepositoryId,
        branch: BranchName,
        files: Mapping[str, bytes | None],
        *,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> CommitId:
        """Upload or delete each, then commit."""
        for path, content in files.items():
            if content is not None:
                await self.write(repository, branch, path, content)
        gone = [path for path, content in files.items() if content is None]
        if gone:
            await self._objects.delete_many(repository, branch, gone)
        return await self._commits.commit(
            CommitRequest(repository, branch, "set up", metadata, allow_empty=not files)
        )

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
                await self._objects.delete_many(repository, branch, tuple(files))
        raise TimeoutError(f"{branch} never took {sorted(files)}")

    async def protect(self, repository: RepositoryId, pattern: str) -> None:
        """Set the rule and wait until the server refuses to reset a branch to where it is."""
        settings = f"/repositories/{repository}/settings/branch_protection"
        await self.tell("PUT", settings, [{"pattern": pattern}])
        page = await self._branches.list_page(repository, "", show_hidden=True)
        heads = dict(zip(page.names, page.heads, strict=True))
        name = next(name for name in page.names if covers(pattern, name))
        for _ in range(PROTECTION_LOOKS_MAX):
            answer = await self._branches.relocate(repository, name, heads[name])
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


@asynccontextmanager
async def connected(
    server: LakefsServer, endpoint: str | None = None, *, answer_seconds: float = 60.0
) -> AsyncGenerator[RealLakeFS]:
    """Connect to a running server, through another endpoint if one is given."""
    client = LakeFSClient(
        LakeFSConfiguration(
            endpoint_url=endpoint or server.endpoint,
            access_key_id=server.access_key_id,
            secret_access_key=server.secret_access_key,
            answer_seconds=answer_seconds,
            retry=RetryTerms(seconds_max=1.0),
        )
    )
    try:
        yield RealLakeFS(client, server)
    finally:
        client.close()


@asynccontextmanager
async def open_real_lakefs(request: pytest.FixtureRequest) -> AsyncGenerator[RealLakeFS]:
    """Connect to the lakeFS of this session."""
    server: LakefsServer = request.getfixturevalue("lakefs_server")
    async with connected(server) as world:
        yield world
