"""Runs on real servers: by `perago start`, and with the faults of the kit's cases."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest
from tests.integration.worker_scene import WorkerScene
from tests.run_cases import (
    CASES,
    DRAINED,
    RunCase,
    cases_of_every_call,
    cases_of_every_drain,
    run_case,
)

from perago.adapters.system import SystemClock
from perago.app.authoring.task_definition import build_taskdef
from perago.app.inspection.attempts import InspectionTools, Question, gather
from perago.app.runs.finish import BUILT_IN
from perago.domain.attempt import WorkflowStatus
from perago.domain.commit_metadata import RUN, RUN_TASKS
from perago.domain.lakefs import CommitId
from perago.domain.workflow_explanation import explain_workflow
from perago.testing import PeragoEnvironment
from perago.testing.contract.conductor_under_test import simple, workflow_of
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.remote_servers import LEASE_SECONDS, RealServers, RemoteServers

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.timeout(600)]
AT_ONCE = 8  # more would let leases of four seconds end on a busy machine
# A deploy waits for no lease to end: one that ends is the fault of a busy machine. The cases of a
# test have one lease, because their TaskDefs have the same names.
LEASE_OF_DRAINED_SECONDS = 120
STEP = """
number = len(list(workspace.glob("step-*"))) + 1
(workspace / f"step-{number}").write_text("made")
"""


async def test_a_worker_serves_begin_two_tasks_and_finish(scene: WorkerScene) -> None:
    lakefs = scene.lakefs
    base = await lakefs.install_fence(scene.repository)
    module = await scene.declare(STEP, workspace=True)
    for task in BUILT_IN:
        await scene.conductor.definitions.put(build_taskdef(task))
    target: dict[str, object] = {"repository": scene.repository, "branch": MAIN}
    name = await _define_transaction(scene, module.name, target)
    async with scene.polling_worker([module]) as worker:
        ended = await scene.ended(await scene.conductor.workflows.start(name, {}))
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen
        # Clean-up comes after the completion, and the end of the block kills the worker.
        await _cleaned_up(scene)
    head = await lakefs.branches.head(scene.repository, MAIN)
    assert ended.output_data == {"workspace": {**target, "ref_type": "commit", "ref": head.commit}}
    assert head.parents[0] == base
    assert head.metadata[RUN_TASKS] == "2"
    tasks = await lakefs.commits.first_parents(
        scene.repository, head.parents[1], CommitId(base), commits_max=10
    )
    assert len(tasks.above) == 2
    page = await lakefs.objects.list_page(scene.repository, head.commit, prefix="data/step-")
    assert [each.path for each in page.items] == ["data/step-1", "data/step-2"]
    tags = await lakefs.tags.list_page(scene.repository, f"perago-base-{head.metadata[RUN]}")
    assert [tag.commit for tag in tags.items] == [base]
    explained = await _explained(scene, ended.workflow_id)
    published = f"commit {head.commit[:12]} on branch {MAIN} of {scene.repository}"
    assert explained.startswith(f"The run was published as {published}, with 2 publications")
    assert explained.endswith(" and Conductor counts it.")


async def _cleaned_up(scene: WorkerScene) -> None:
    branches = scene.lakefs.branches
    for _ in range(600):  # a minute, as a busy machine may need
        page = await branches.list_page(scene.repository, "perago-", show_hidden=True)
        if not page.items:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("branches of the run are left")


async def _explained(scene: WorkerScene, workflow: str) -> str:
    clock = SystemClock()
    tools = InspectionTools(scene.lakefs.installation(), clock, scene.conductor.workflows)
    found = await gather(tools, Question(workflow))
    return explain_workflow(found, found.workflows[0], clock.now()).left


async def _define_transaction(scene: WorkerScene, task: str, target: dict[str, object]) -> str:
    """A workflow of begin, two steps and finish; its name."""
    rows = [simple("perago.begin", "begin", {"params": target})]
    workspace = "${begin.output.result.workspace}"
    for reference in ("one", "two"):
        rows.append(simple(task, reference, {"params": {}, "workspace": workspace}))
        workspace = f"${{{reference}.output.workspace}}"
    given = {"run": "${begin.output.result.run}", "workspace": workspace}
    rows.append(simple("perago.finish", "finish", {"params": given}))
    name = scene.conductor.unique("transaction")
    output = {"workspace": "${finish.output.result.workspace}"}
    definition = workflow_of(name, *rows, outputParameters=output)
    await scene.conductor.workflows.put_definition(definition)
    return name


@pytest.fixture
def environments(
    kit_servers: RealServers,
) -> Iterator[Callable[[int], PeragoEnvironment]]:
    """An environment of its own for each case; all are closed when no loop runs any more."""

    def new(lease_seconds: int) -> PeragoEnvironment:
        servers = RemoteServers(kit_servers, lease_seconds=lease_seconds)
        return opened.enter_context(PeragoEnvironment(servers=servers))

    with ExitStack() as opened:
        yield new


@pytest.mark.parametrize(
    ("cases", "lease_seconds"),
    [
        pytest.param(CASES, LEASE_SECONDS, id="chosen"),
        pytest.param(DRAINED, LEASE_OF_DRAINED_SECONDS, id="chosen drains"),
        pytest.param(
            tuple(cases_of_every_call()),
            LEASE_SECONDS,
            id="every call",
            marks=[pytest.mark.soak, pytest.mark.timeout(1800)],
        ),
        pytest.param(
            tuple(cases_of_every_drain()),
            LEASE_OF_DRAINED_SECONDS,
            id="every drain",
            marks=[pytest.mark.soak, pytest.mark.timeout(1800)],
        ),
    ],
)
async def test_every_fault_of_a_run_ends_as_in_memory(
    environments: Callable[[int], PeragoEnvironment], cases: Sequence[RunCase], lease_seconds: int
) -> None:
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(case: RunCase) -> int:
        async with turns:
            return await run_case(environments(lease_seconds), case)

    ends = await asyncio.gather(*map(in_turn, cases), return_exceptions=True)
    failed = [end for end in ends if isinstance(end, BaseException)]
    assert not failed, "\n\n".join(
        "\n".join([str(each), *getattr(each, "__notes__", [])]) for each in failed
    )
    # An order that comes before the first request, or with the last one, is the exception.
    drained = sum(case.is_drained for case in cases)
    assert drained / 2 <= sum(end for end in ends if isinstance(end, int)) <= drained
