"""One process talks to lakeFS over one set of connections: short questions, and bytes of objects.

What counts is what the server saw.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.integration.http_scene import Arrived, ScriptedServer, scripted
from tests.integration.transfer_scene import md5_of

from perago.adapters.system import AsyncioConcurrency
from perago.app.connections import Connections, LakeFSConnection
from perago.app.container import Container, open_lakefs
from perago.app.pipeline_parts import open_part_work
from perago.app.settings.settings import load_settings
from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports.installations import LakeFSInstallation
from perago.ports.objects import FetchOrder, ObjectEntry
from perago.ports.workspace import WorkspaceSource

REPOSITORY, COMMIT = RepositoryId("repository"), CommitId("c" * 64)
CONTENT = b"content"
AT_ONCE = 2


@dataclass
class Served:
    """A lakeFS with one object at any path; its bytes wait until they may leave."""

    bytes_may_leave: asyncio.Event = field(default_factory=asyncio.Event)
    is_busy: asyncio.Event = field(default_factory=asyncio.Event)
    most_bytes: int = 0
    bytes_now: int = 0

    async def __call__(self, arrived: Arrived) -> bool:
        """Answer one request."""
        path = arrived.line.split(" ")[1].partition("?")[0]
        if path.endswith("/objects"):
            self.bytes_now += 1
            self.most_bytes = max(self.most_bytes, self.bytes_now)
            if self.bytes_now == AT_ONCE:
                self.is_busy.set()
            await self.bytes_may_leave.wait()
            self.bytes_now -= 1
            await arrived.answer(CONTENT)
        else:
            await arrived.answer(json.dumps(said(path)).encode())
        return True


def said(path: str) -> dict[str, object]:
    if path.endswith("/objects/ls"):
        stats = {"path": "ws/x", "checksum": md5_of(CONTENT), "size_bytes": 7, "mtime": 0}
        return {"results": [stats], "pagination": {"has_more": False}}
    return {
        "id": REPOSITORY,
        "default_branch": "main",
        "storage_namespace": "s3://bucket/repository",
    }


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[LakeFSConnection, Served, ScriptedServer]]:
    script = Served()
    async with scripted(script) as server:
        yield LakeFSConnection(url=server.url, access_key_id="id"), script, server


def order(place: Path, number: int) -> FetchOrder:
    return FetchOrder(ObjectEntry("ws/x", md5_of(CONTENT), len(CONTENT)), place / str(number))


async def test_a_workers_questions_and_bytes_share_connections(tmp_path: Path) -> None:
    async with served() as (connection, script, server):
        script.bytes_may_leave.set()
        said = {"PERAGO_WORKSPACE_ROOT": str(tmp_path / "root")}
        settings = load_settings(cwd=tmp_path, process_env=said)
        container = Container(connections=Connections(settings, connection))
        lakefs: LakeFSInstallation = container.lakefs()
        (tmp_path / "ws").mkdir()
        await lakefs.repositories.read(REPOSITORY)
        source = WorkspaceSource(REPOSITORY, COMMIT, "ws")
        await container.pipeline().materialise(source, tmp_path / "ws")
        await lakefs.repositories.read(REPOSITORY)
        await lakefs.close()
        assert (tmp_path / "ws" / "x").read_bytes() == CONTENT
        assert (len(server.requests), server.connections) == (4, 1)


async def test_an_executor_of_spark_shares_connections_too(tmp_path: Path) -> None:
    opened: list[LakeFSInstallation] = []

    def opens(connection: LakeFSConnection) -> LakeFSInstallation:
        opened.append(open_lakefs(connection))
        return opened[0]

    async with served() as (connection, script, server):
        script.bytes_may_leave.set()
        open_part_work(opens, connection)
        (lakefs,) = opened
        await lakefs.repositories.read(REPOSITORY)
        transport = lakefs.transport(AsyncioConcurrency())
        await transport.fetch(REPOSITORY, COMMIT, [order(tmp_path, 0)])
        await lakefs.close()
        assert server.connections == 1


async def test_bytes_are_bounded_together_and_no_question_waits_for_them(tmp_path: Path) -> None:
    async with served() as (connection, script, server):
        lakefs = open_lakefs(replace(connection, requests_max=AT_ONCE))
        transport = lakefs.transport(AsyncioConcurrency())
        orders = [order(tmp_path, number) for number in range(12)]
        attempts = [
            asyncio.create_task(transport.fetch(REPOSITORY, COMMIT, orders[start::3]))
            for start in range(3)
        ]
        async with asyncio.timeout(5):
            await script.is_busy.wait()
            await lakefs.repositories.read(REPOSITORY)
        script.bytes_may_leave.set()
        await asyncio.gather(*attempts)
        await lakefs.close()
        assert script.most_bytes == AT_ONCE
        assert server.connections == AT_ONCE + 1
