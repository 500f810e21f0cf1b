"""A real Conductor as the contract suites see it.

Decides how time-outs that are due are brought about there. Must not know any law.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import final

import pytest

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.domain.attempt import AttemptStatus
from perago.ports.installations import ConductorInstallation
from perago.testing.contract.conductor_under_test import ConductorUnderTest
from perago.testing.contract.cutting_proxy import cutting_proxy
from perago_servers import ConductorServer

REQUEST_SECONDS = 40.0  # servers and builds share the machine
JOIN_LOOKS_MAX = 40
JOIN_PAUSE_SECONDS = 0.1


@final
class RealConductor(ConductorUnderTest):
    """The adapters under test, and a clock that is everybody's."""

    def __init__(self, settings: ConductorSettings) -> None:
        self._settings = settings
        ports = open_conductor(settings)
        self.queue, self.definitions = ports.queue, ports.definitions
        self.workflows, self.close = ports.workflows, ports.close

    @asynccontextmanager
    async def losing_answers(self) -> AsyncGenerator[ConductorInstallation]:
        """A client behind a proxy that cuts; a read leaves a connection that is kept."""
        async with cutting_proxy(self._settings.url) as proxy:
            unheard = open_conductor(replace(self._settings, url=proxy.url))
            try:
                await unheard.queue.check()
                proxy.cut()
                yield unheard
            finally:
                await unheard.close()
        assert proxy.answers_lost

    def unique(self, stem: str) -> str:
        """A name of its own."""
        return f"{stem}_{secrets.token_hex(6)}"

    async def nudge(self, workflow_id: str) -> None:
        """Decide; a JOIN that is ready is moved by the server's own worker, so look for it."""
        await self.workflows.decide(workflow_id)
        for _ in range(JOIN_LOOKS_MAX):
            if not await self._waits_for_a_join(workflow_id):
                return
            await asyncio.sleep(JOIN_PAUSE_SECONDS)
            await self.workflows.decide(workflow_id)

    async def let_pass(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)

    async def _waits_for_a_join(self, workflow_id: str) -> bool:
        workflow = await self.queue.read_workflow(workflow_id)
        if workflow is None or workflow.status.is_terminal:
            return False
        joins = [row for row in workflow.tasks if row.task_type == "JOIN"]
        others = [row for row in workflow.tasks if row not in joins]
        return any(row.status is AttemptStatus.IN_PROGRESS for row in joins) and all(
            row.status.is_terminal for row in others
        )


def settings_of(server: ConductorServer) -> ConductorSettings:
    """How tests reach a server."""
    return ConductorSettings(server.api_url, request_timeout_seconds=REQUEST_SECONDS)


@asynccontextmanager
async def connected(server: ConductorServer) -> AsyncGenerator[RealConductor]:
    """The harness on one server."""
    real = RealConductor(settings_of(server))
    try:
        yield real
    finally:
        await real.close()


@asynccontextmanager
async def open_real_conductor(request: pytest.FixtureRequest) -> AsyncGenerator[RealConductor]:
    """The session's server with system workers: without them no JOIN ends."""
    server: ConductorServer = request.getfixturevalue("conductor_workers_server")
    async with connected(server) as harness:
        yield harness
