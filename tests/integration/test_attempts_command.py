"""`perago attempts` on real servers: what is found, in how many requests, and how fast."""

import re
from pathlib import Path
from time import perf_counter

import pytest
from tests.contract.real_lakefs import RealLakeFS
from tests.integration.attempt_scene import OWNER, AttemptScene

from perago.adapters.system import SystemClock, SystemIdentities
from perago.app.inspection.attempts import InspectionTools, Question, gather
from perago.domain.attempt import AttemptStatus
from perago.domain.attempt_history import AttemptHistory, CommitRole, how_far
from perago.domain.names import staging_branch_name
from perago.domain.policy import PolicySetting
from perago.domain.workflow_explanation import Situation, explain_workflow
from perago.ports.conductor import PollRequest, TerminalUpdate
from perago.ports.installations import ConductorInstallation
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago.testing.faults import crash

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
FAILED, REQUESTS_MAX, SECONDS_MAX = 297, 30, 2.0


async def _asked(scene: AttemptScene, injector: FaultInjector) -> AttemptHistory:
    lakefs = faulty_installation(scene.ports(), injector)
    conductor = faulty_installation(scene.conductor, injector)
    tools = InspectionTools(lakefs, SystemClock(), conductor.workflows)
    return await gather(tools, Question(scene.workflow))


async def _start_with_many_retries(scene: AttemptScene) -> None:
    """The scene's own TaskDef has ten."""
    await scene.start()
    await scene.conductor.workflows.terminate(scene.workflow, "another one is worked on")
    name = scene.task.name
    definition: dict[str, object] = {"name": name, "ownerEmail": OWNER, "retryCount": 400}
    definition |= {"retryDelaySeconds": 0, "timeoutSeconds": 0, "responseTimeoutSeconds": 600}
    await scene.conductor.definitions.put(definition)
    given = {"workspace": scene.workspace()}
    scene.workflow = await scene.conductor.workflows.start(name, given)


async def _fail(scene: AttemptScene, number: int) -> None:
    """An attempt that left its staging branch and said why it ended."""
    (record,) = await scene.conductor.queue.poll(PollRequest(scene.task.name, f"w{number}"))
    execution = SystemIdentities().new_execution_id()
    branch = staging_branch_name(record.snapshot, execution)
    await scene.lakefs.branches.create(scene.repository, branch, scene.input)
    reason = "lakeFS was not reached [UnavailableError PRG-L010]"
    failed = TerminalUpdate(record.snapshot, f"w{number}", AttemptStatus.FAILED, reason=reason)
    await scene.conductor.queue.complete(failed, timeout_seconds=30)


async def test_three_hundred_attempts_are_found_in_two_seconds_and_thirty_requests(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path
) -> None:
    scene = AttemptScene(lakefs, conductor, tmp_path, PolicySetting.SETTLED)
    await scene.create()
    await _start_with_many_retries(scene)
    for number in range(FAILED):
        await _fail(scene, number)
    assert await scene.attempt(crash(after="decide")) is None
    assert await scene.attempt(crash(after="merge")) is None
    published = await scene.completed()
    await lakefs.commit_files(scene.repository, MAIN, {"elsewhere/human": b"1"})

    injector = FaultInjector([])
    begin = perf_counter()
    found = await _asked(scene, injector)
    seconds = perf_counter() - begin

    (task,) = found.tasks
    steps = [how_far(attempt) for attempt in task.attempts]
    assert steps[:FAILED] == ["staging"] * FAILED
    assert steps[FAILED:] == ["decided", "published", "adopted"]
    assert [record.commit for record in task.publications] == [published]
    assert len(task.decisions) == 1
    roles = [role for _, role in found.roles(found.branches[0])]
    assert roles == [CommitRole.FOREIGN, CommitRole.PUBLICATION, CommitRole.INPUT]
    assert found.missing == ()
    assert injector.calls.total() <= REQUESTS_MAX, injector.calls
    assert seconds < SECONDS_MAX, seconds


async def test_a_retry_in_its_delay_is_explained_by_the_failure_before_it(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path
) -> None:
    def broken(_: Path, __: int) -> None:
        raise ValueError("no trip that long")

    scene = AttemptScene(lakefs, conductor, tmp_path, PolicySetting.SETTLED, body=broken)
    await scene.create()
    await scene.start()
    # A running workflow has the definition of its start.
    await conductor.workflows.terminate(scene.workflow, "another one is worked on")
    name = scene.task.name
    definition: dict[str, object] = {"name": name, "ownerEmail": OWNER, "retryCount": 3}
    definition |= {"retryDelaySeconds": 300, "responseTimeoutSeconds": 600, "timeoutSeconds": 0}
    await conductor.definitions.put(definition)
    scene.workflow = await conductor.workflows.start(name, {"workspace": scene.workspace()})
    await scene.failed()

    found = await _asked(scene, FaultInjector([]))
    explained = explain_workflow(found, found.workflows[0], SystemClock().now())

    assert explained.situation is Situation.RETRIES
    expected = r"ValueError: no trip that long \[PRG-B004\]; the next try, attempt 2, is at .* UTC"
    assert re.search(rf"{expected} \(in (29\d|300) s\)\.$", explained.happened)
    assert explained.command.startswith("perago run MODULE --task ")
    await conductor.workflows.terminate(scene.workflow, "the test is over")
