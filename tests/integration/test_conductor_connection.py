"""The Conductor adapter on a real server: addresses, lost answers, and what is sent unchanged."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from tests.contract.real_conductor import RealConductor, connected
from tests.integration.conductor_scene import one_task

from perago.adapters.conductor.client import ConductorClient, ConductorSettings
from perago.adapters.conductor.installation import ConductorTaskQueue
from perago.adapters.http import HttpTerms
from perago.domain.attempt import AttemptStatus
from perago.ports.conductor import TerminalUpdate
from perago.ports.errors import OutcomeUnknownError, UnavailableError, WrongServerError
from perago_servers import ConductorServer, ToxiproxyServer
from perago_servers import conductor_server as started_conductor
from perago_servers.toxiproxy import Proxy

pytestmark = pytest.mark.conductor

SHORT_SECONDS = 0.5
PATIENT_SECONDS = 30.0  # a machine that is busy with something else still answers


@asynccontextmanager
async def queue_at(
    url: str, seconds: float = PATIENT_SECONDS
) -> AsyncGenerator[ConductorTaskQueue]:
    client = ConductorClient(ConductorSettings(url, request_timeout_seconds=seconds))
    try:
        yield ConductorTaskQueue(client)
    finally:
        await client.close()


@pytest_asyncio.fixture
async def conductor(conductor_server: ConductorServer) -> AsyncGenerator[RealConductor]:
    async with connected(conductor_server) as harness:
        yield harness


@pytest.fixture
def proxy(conductor_server: ConductorServer, toxiproxy: ToxiproxyServer) -> Generator[Proxy]:
    with toxiproxy.proxied(conductor_server.endpoint) as between:
        yield between


@pytest.mark.parametrize("path", ["/api", "/api/", "/api//"])
async def test_the_check_tells_the_version(conductor_server: ConductorServer, path: str) -> None:
    async with queue_at(conductor_server.endpoint + path) as queue:
        assert (await queue.check()).startswith("3.")


async def test_a_conductor_of_a_private_authority_is_reached_over_tls(certificate: Path) -> None:
    with started_conductor(certificate=certificate) as server:
        settings = ConductorSettings(server.api_url, http=HttpTerms(ca_file=certificate))
        client = ConductorClient(settings)
        try:
            assert (await ConductorTaskQueue(client).check()).startswith("3.")
        finally:
            await client.close()


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("", "/api: use that address"),
        ("/", "/api: use that address"),
        ("/wrong", "such as http://host:8080/api"),
        ("/api/api", "such as http://host:8080/api"),
    ],
    ids=["no /api", "only a slash", "wrong path: a landing page", "one /api too many"],
)
async def test_a_wrong_path_is_one_clear_error(
    conductor_server: ConductorServer, path: str, remedy: str
) -> None:
    async with queue_at(conductor_server.endpoint + path) as queue:
        with pytest.raises(WrongServerError, match=remedy):
            await queue.check()


async def test_https_where_the_server_speaks_http_is_no_outage(
    conductor_server: ConductorServer,
) -> None:
    """A worker that starts waits for a Conductor that is away, and not for this one."""
    async with queue_at(conductor_server.endpoint.replace("http:", "https:")) as queue:
        with pytest.raises(WrongServerError, match="not sent"):
            await queue.check()


async def test_a_certificate_that_is_not_trusted_is_no_outage(certificate: Path) -> None:
    with started_conductor(certificate=certificate) as server:
        async with queue_at(server.api_url) as queue:
            with pytest.raises(WrongServerError, match="CERTIFICATE_VERIFY_FAILED"):
                await queue.check()


async def test_a_wrong_path_never_makes_a_task_look_gone(
    conductor_server: ConductorServer,
) -> None:
    async with queue_at(f"{conductor_server.endpoint}/api/api") as queue:
        with pytest.raises(UnavailableError, match="not Conductor's"):
            await queue.read_attempt("w", "t")


async def test_a_completion_whose_answer_is_lost_is_unknown_and_found_by_looking(
    conductor: RealConductor, proxy: Proxy
) -> None:
    task = await one_task(conductor)
    workflow_id = await task.start()
    mine = await task.polled("mine")
    async with (
        queue_at(f"{proxy.endpoint}/api", SHORT_SECONDS) as queue,
        queue_at(f"{proxy.endpoint}/api") as patient,
    ):
        proxy.add_toxic("timeout", timeout=0)
        update = TerminalUpdate(mine, "mine", AttemptStatus.COMPLETED, {"sent": "once"})
        with pytest.raises(OutcomeUnknownError, match="send COMPLETED"):
            await queue.complete(update, timeout_seconds=SHORT_SECONDS)
        with pytest.raises(UnavailableError, match="no usable answer"):
            await queue.read_attempt(workflow_id, mine.task_id)
        proxy.remove_toxics()
        row = await patient.read_attempt(workflow_id, mine.task_id)
    assert row is not None
    assert (row.snapshot.status, row.output_data) == (AttemptStatus.COMPLETED, {"sent": "once"})


async def test_a_heartbeat_on_a_broken_connection_is_unknown_and_the_next_one_passes(
    conductor: RealConductor, proxy: Proxy
) -> None:
    task = await one_task(conductor)
    await task.start()
    mine = await task.polled("mine")
    async with queue_at(f"{proxy.endpoint}/api") as queue:
        await queue.check()
        proxy.add_toxic("reset_peer", timeout=0)
        with pytest.raises(OutcomeUnknownError):
            await queue.extend_lease(mine, "mine")
        proxy.remove_toxics()
        await queue.extend_lease(mine, "mine")


async def test_a_completion_that_was_refused_a_connection_changed_nothing(
    conductor: RealConductor, proxy: Proxy
) -> None:
    task = await one_task(conductor)
    workflow_id = await task.start()
    mine = await task.polled("mine")
    async with queue_at(f"{proxy.endpoint}/api") as queue:
        proxy.set_enabled(enabled=False)
        with pytest.raises(UnavailableError, match="not sent"):
            await queue.complete(
                TerminalUpdate(mine, "mine", AttemptStatus.COMPLETED), timeout_seconds=5
            )
    row = await conductor.queue.read_attempt(workflow_id, mine.task_id)
    assert row is not None
    assert row.snapshot.status is AttemptStatus.IN_PROGRESS


async def test_log_lines_and_outputs_arrive_letter_by_letter(conductor: RealConductor) -> None:
    task = await one_task(conductor)
    workflow_id = await task.start()
    mine = await task.polled("mine")
    text = 'said "ü"\n\\ \u2028 \U0001f40d'
    await conductor.queue.log(mine.task_id, text)
    await task.complete(mine, text=text, large=2**70, small=1e-300, nothing=None)
    row = await conductor.queue.read_attempt(workflow_id, mine.task_id)
    assert await conductor.queue.read_log(mine.task_id) == (text,)
    assert row is not None
    assert row.output_data["text"] == text
    assert (row.output_data["large"], row.output_data["small"]) == (2**70, 1e-300)
