"""Real servers below an environment: the same verbs over HTTP, and seconds that really pass.

Every environment uses repositories, workflows and a task domain of its own. TaskDefs are shared
by name: two runs at once on one Conductor need different task names.
"""

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from perago.adapters.conductor.client import (
    ApiClient,
    ApiRequest,
    ConductorClient,
    ConductorSettings,
    joined,
)
from perago.adapters.conductor.installation import (
    ConductorTaskDefinitions,
    ConductorTaskQueue,
    ConductorWorkflows,
)
from perago.adapters.http import LoopThread
from perago.adapters.lakefs import client as lakefs_client
from perago.adapters.lakefs.answers import Operation
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.installation import open_lakefs
from perago.adapters.system import AsyncioConcurrency, SystemClock, SystemIdentities
from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowStatus
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.ports.lakefs import CommitRequest
from perago.ports.objects import ObjectUpload
from perago.ports.system import Clock
from perago.testing.servers import MAIN, RealMeans, Servers

# Each test that lets a lease run out waits this long. Shorter, and a busy machine loses leases that
# no test let run out.
LEASE_SECONDS = 4
LEASE_LOOKS_MAX = 200  # 20 s of PAUSE_SECONDS: five leases
PAUSE_SECONDS = 0.1  # between looks: short beside a lease of 4 s, and ten requests a second
# A real server does not say that nothing is due. If no row has changed for so long, the run is
# over: longer than every pause between retries that the kit's tests use.
STALLED_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class RealServers:
    """Where the servers are."""

    lakefs_url: str
    access_key_id: str
    secret_access_key: str
    namespace_root: str
    conductor_url: str


def servers_of_environment() -> "RemoteServers":
    """The servers that `PERAGO_TEST_*` names."""
    conductor = "PERAGO_TEST_CONDUCTOR_WORKERS_ENDPOINT"
    if conductor not in os.environ:
        conductor = "PERAGO_TEST_CONDUCTOR_ENDPOINT"
    of_lakefs = ("ENDPOINT", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "NAMESPACE_ROOT")
    names = [*(f"PERAGO_TEST_LAKEFS_{name}" for name in of_lakefs), conductor]
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        text = f"--perago-backend=real needs {', '.join(missing)}; nothing was found there"
        raise RuntimeError(text)
    lakefs, key, secret, root, address = (os.environ[name] for name in names)
    return RemoteServers(RealServers(lakefs, key, secret, root, f"{address.rstrip('/')}/api"))


@final
class RemoteServers(Servers):
    """One lakeFS and one Conductor somewhere."""

    def __init__(
        self,
        servers: RealServers,
        means: RealMeans | None = None,
        *,
        lease_seconds: int = LEASE_SECONDS,
    ) -> None:
        self.servers = servers
        self.lease_seconds = lease_seconds
        self.means = means
        self._suffix = secrets.token_hex(4)
        self._root = Path(tempfile.mkdtemp(prefix="perago-env-"))
        self._seen: object = None
        self._seen_at = 0.0
        self.clock: Clock = SystemClock()
        self.domain: str | None = f"kit-{self._suffix}"
        self._configuration = LakeFSConfiguration(
            endpoint_url=servers.lakefs_url,
            access_key_id=servers.access_key_id,
            secret_access_key=servers.secret_access_key,
        )
        self.lakefs: LakeFSInstallation = open_lakefs(self._configuration)
        self._client = _ClientOfItsOwn(
            ConductorSettings(servers.conductor_url, request_timeout_seconds=40.0)
        )
        self.conductor: ConductorInstallation = ConductorInstallation(
            queue=ConductorTaskQueue(self._client),
            definitions=ConductorTaskDefinitions(self._client),
            workflows=ConductorWorkflows(self._client),
        )

    def identities(self, number: int) -> SystemIdentities:
        del number
        return SystemIdentities()

    def concurrency(self) -> AsyncioConcurrency:
        return AsyncioConcurrency()

    def unique(self, name: str) -> str:
        """The name and these servers' own suffix."""
        return f"{name}-{self._suffix}"

    def task_definition(self, definition: Mapping[str, object]) -> dict[str, object]:
        """A short lease and retries at once: what waits for minutes in the field takes seconds."""
        return {
            **definition,
            "responseTimeoutSeconds": self.lease_seconds,
            "retryDelaySeconds": 0,
            "timeoutSeconds": 0,
        }

    async def create_repository(self, name: str) -> RepositoryId:
        """Create it by the API, which no port offers."""
        root = self.servers.namespace_root
        content = {"name": name, "storage_namespace": f"{root}{name}", "default_branch": MAIN}
        request = lakefs_client.ApiRequest("POST", ("repositories",), content=content)
        client = lakefs_client.LakeFSClient(self._configuration)
        try:
            await client.ask(Operation("create repository", name, writes=True), request, bytes)
        finally:
            client.close()
        return RepositoryId(name)

    async def commit(
        self,
        repository: RepositoryId,
        branch: BranchName,
        files: Mapping[str, bytes | None],
        message: str,
    ) -> CommitId:
        gone = [path for path, content in files.items() if content is None]
        with tempfile.TemporaryDirectory(dir=self._root) as directory:
            source = Path(directory) / "object"
            for path, content in files.items():
                if content is not None:
                    await asyncio.to_thread(source.write_bytes, content)
                    upload = ObjectUpload(path, source)
                    await self.lakefs.objects.upload(repository, branch, upload)
        if gone:
            await self.lakefs.objects.delete_many(repository, branch, gone)
        request = CommitRequest(repository, branch, message, {}, allow_empty=not files)
        return await self.lakefs.commits.commit(request)

    async def give_way(self) -> None:
        await asyncio.sleep(PAUSE_SECONDS / 10)

    async def rest(self, workflow_ids: Sequence[str]) -> bool:
        """Wait a moment and let the server apply what is due; False when it has stood still."""
        await asyncio.sleep(PAUSE_SECONDS)
        seen: list[object] = []
        for workflow_id in workflow_ids:
            workflow = await self.conductor.queue.read_workflow(workflow_id)
            seen.append(workflow)
            if workflow is not None and workflow.status is WorkflowStatus.RUNNING:
                await self.conductor.workflows.decide(workflow_id)
        now = self.clock.monotonic()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        return now - self._seen_at < STALLED_SECONDS

    async def let_lease_expire(self, record: AttemptRecord) -> None:
        snapshot = record.snapshot
        for _ in range(LEASE_LOOKS_MAX):
            await asyncio.sleep(PAUSE_SECONDS)
            await self.conductor.workflows.decide(snapshot.workflow_id)
            row = await self.conductor.queue.read_attempt(snapshot.workflow_id, snapshot.task_id)
            if row is None or row.snapshot.status is not AttemptStatus.IN_PROGRESS:
                return
        raise TimeoutError(f"the lease of {snapshot.task_id} does not run out")

    def worker_root(self, number: int) -> Path:
        return self._root / str(number)

    def close(self) -> None:
        """Close connections, remove directories; repositories stay for inspection."""
        asyncio.run(self._close())
        shutil.rmtree(self._root, ignore_errors=True)

    async def _close(self) -> None:
        await self.lakefs.close()
        await asyncio.to_thread(self._client.close)


@final
class _ClientOfItsOwn(ApiClient):
    """A Conductor client in a loop of its own: a fixture closes it after the test's loop ended."""

    def __init__(self, settings: ConductorSettings) -> None:
        self._client = ConductorClient(settings)
        self._thread = LoopThread("perago-kit-conductor")
        self._is_closed = False

    @property
    def address(self) -> str:
        return self._client.address

    async def call(self, request: ApiRequest) -> object:
        return await joined(self._thread.run(self._client.call(request)))

    def close(self) -> None:
        """Close connections, loop and thread; the environment and its fixture both ask for it."""
        if self._is_closed:
            return
        self._is_closed = True
        self._thread.close(self._client.close())
