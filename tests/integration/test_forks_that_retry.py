"""How often a real Conductor fails a fork although every branch has retries left.

A JOIN may look at a branch between its failure and its retry, and takes the failure for final.
Where each branch is a workflow of its own the JOIN sees that workflow, which runs on. The soak form
is the table of docs/how-to/several-tasks-on-one-branch.md. Nobody promises how often a race is lost
there, so that only the row without a loss is asserted.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import pytest

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.ports.conductor import PollRequest, TerminalUpdate
from perago.ports.installations import ConductorInstallation
from perago.testing.contract.conductor_under_test import (
    OWNER,
    runs_child,
    simple,
    system,
    workflow_of,
)
from perago_servers import ConductorServer

RETRIES = 30  # with 10, one in ten tables would have a branch that fails for good
WORKERS = 4
SECONDS_MAX = 240


@dataclass(frozen=True)
class Form:
    """How the branches of a fork are written."""

    name: str
    in_child: bool = False
    task: Mapping[str, object] = field(default_factory=dict[str, object])
    join: Mapping[str, object] = field(default_factory=dict[str, object])


CHILDREN = Form("a SUB_WORKFLOW per branch", in_child=True)
FORMS = (
    Form("SIMPLE, JOIN as it is"),
    Form("SIMPLE, JOIN with joinMode SYNC", join={"joinMode": "SYNC"}),
    Form("SIMPLE with permissive: true", task={"permissive": True}),
    CHILDREN,
)


class Forks:
    """Workflows of one form on one Conductor, and workers that fail half of what they poll."""

    def __init__(self, conductor: ConductorInstallation, form: Form, stem: str) -> None:
        self._conductor = conductor
        self._form = form
        self._task = f"{stem}_task"
        self._name = f"{stem}_fork"
        self._random = Random(7)  # noqa: S311  # half of the attempts, the same half each time

    async def define(self, branches: int) -> None:
        """The task, the child workflow, and the fork over it."""
        task: dict[str, object] = {"name": self._task, "ownerEmail": OWNER, "retryCount": RETRIES}
        task |= {"retryDelaySeconds": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 60}
        await self._conductor.definitions.put(task)
        child, put = f"{self._task}_child", self._conductor.workflows.put_definition
        await put(workflow_of(child, self._simple("inner")))
        names = [f"branch_{number}" for number in range(branches)]
        tasks = [
            runs_child(child, each, {}) if self._form.in_child else self._simple(each)
            for each in names
        ]
        fork = system("FORK_JOIN", "fork", forkTasks=[[task] for task in tasks])
        join = system("JOIN", "join", joinOn=names, **self._form.join)
        await put(workflow_of(self._name, fork, join))

    async def lost_of(self, workflows: int) -> int:
        """Start so many, work until all have ended; how many of them failed."""
        start = self._conductor.workflows.start
        ids = [await start(self._name, {}) for _ in range(workflows)]
        workers = [asyncio.create_task(self._work(f"worker-{n}")) for n in range(WORKERS)]
        try:
            async with asyncio.timeout(SECONDS_MAX):
                ends = [await self._end_of(each) for each in ids]
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return ends.count(WorkflowStatus.FAILED)

    async def _end_of(self, workflow_id: str) -> WorkflowStatus:
        while True:
            record = await self._conductor.workflows.read(workflow_id)
            assert record is not None
            if record.status.is_terminal:
                return record.status
            await asyncio.sleep(0.2)

    async def _work(self, worker_id: str) -> None:
        queue = self._conductor.queue
        while True:
            for taken in await queue.poll(PollRequest(self._task, worker_id, count=2)):
                fails = self._random.random() < 1 / 2
                status = AttemptStatus.FAILED if fails else AttemptStatus.COMPLETED
                reason = "half of them fail" if fails else None
                update = TerminalUpdate(taken.snapshot, worker_id, status, {}, reason)
                await queue.complete(update, timeout_seconds=40)

    def _simple(self, reference: str) -> dict[str, object]:
        return {**simple(self._task, reference), **self._form.task}


async def _lost(server: ConductorServer, form: Form, branches: int, workflows: int) -> int:
    settings = ConductorSettings(url=server.api_url, request_timeout_seconds=60)
    conductor = open_conductor(settings)
    try:
        forks = Forks(conductor, form, f"retrying_{FORMS.index(form)}_{workflows}")
        await forks.define(branches)
        return await forks.lost_of(workflows)
    finally:
        await conductor.close()


@pytest.mark.conductor
@pytest.mark.timeout(SECONDS_MAX + 60)
async def test_a_fork_of_child_workflows_survives_the_retries_of_its_branches(
    conductor_workers_server: ConductorServer,
) -> None:
    assert await _lost(conductor_workers_server, CHILDREN, branches=8, workflows=8) == 0


@pytest.mark.soak
@pytest.mark.conductor
@pytest.mark.timeout(4 * (SECONDS_MAX + 60))
async def test_the_table_of_forks_has_one_row_without_a_loss(
    conductor_workers_server: ConductorServer,
) -> None:
    lost = {
        form.name: await _lost(conductor_workers_server, form, branches=8, workflows=25)
        for form in FORMS
    }
    print(lost)  # noqa: T201  # the table, for the page
    assert lost[CHILDREN.name] == 0
