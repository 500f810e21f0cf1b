"""What `perago attempts` finds out, and with how many requests."""

from datetime import timedelta
from pathlib import Path
from time import perf_counter

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.attempt.attempt_scene import TASK
from tests.unit.app.gc.gc_scene import DAY, collect
from tests.unit.app.runs.run_harness import RunHarness

from perago.adapters.memory.installations import conductor_installation, lakefs_installation
from perago.adapters.memory.system import WorkerHandle
from perago.app.inspection.attempts import InspectionTools, Question, gather
from perago.domain.attempt_history import (
    AttemptHistory,
    CommitRole,
    DecisionState,
    NowhereToLookError,
    decision_state,
    how_far,
)
from perago.domain.lakefs import RepositoryId
from perago.domain.policy import PolicySetting
from perago.domain.retention import RetentionTimes
from perago.domain.run import History
from perago.domain.workflow_explanation import Situation, explain_workflow
from perago.testing.fault_injector import FaultInjector, faulty_installation
from perago.testing.faults import Fault, always, crash, unavailable

REPOSITORY = RepositoryId("repo")
ATTEMPTS, REQUESTS_MAX, SECONDS_MAX = 300, 30, 2.0


def write(directory: Path, run: int) -> None:
    """A task function that also works on its own output."""
    (directory / "out.txt").write_text(str(run))


async def started(tmp_path: Path, policy: PolicySetting = PolicySetting.SETTLED) -> AttemptHarness:
    """One workflow with one task, whose first attempt waits."""
    return await AttemptHarness(tmp_path, policy, body=write).started()


async def asked(
    harness: AttemptHarness,
    question: Question | None = None,
    *faults: Fault,
    with_conductor: bool = True,
    injector: FaultInjector | None = None,
) -> AttemptHistory:
    """The history of the scene's workflow, or what else is asked."""
    gate = injector or FaultInjector(list(faults))
    lakefs = faulty_installation(lakefs_installation(harness.lakefs, WorkerHandle()), gate)
    conductor = conductor_installation(harness.conductor, WorkerHandle())
    tools = InspectionTools(
        lakefs,
        harness.clock,
        faulty_installation(conductor, gate).workflows if with_conductor else None,
    )
    return await gather(tools, question or Question(harness.workflow))


async def attempt(harness: AttemptHarness, *faults: Fault) -> None:
    """One attempt; its lease ends if it died."""
    await harness.attempt(harness.worker(faults))
    if faults:
        await harness.lose_lease()


def steps(history: AttemptHistory) -> list[str]:
    """How far each attempt came, task by task."""
    return [how_far(each) for task in history.tasks for each in task.attempts]


@pytest.mark.parametrize(
    ("faults", "came_to"),
    [
        ((), ["published"]),
        ((crash(before="branch"),), ["polled", "published"]),
        ((crash(before="stage"),), ["staging", "published"]),
        ((crash(before="decide"),), ["staged", "published"]),
        ((crash(after="decide"),), ["decided", "published"]),
        ((crash(after="merge"),), ["published", "adopted"]),
        ((crash(after="decide"), crash(after="merge")), ["decided", "published", "adopted"]),
    ],
)
async def test_each_attempt_shows_how_far_it_came(
    tmp_path: Path, faults: tuple[Fault, ...], came_to: list[str]
) -> None:
    harness = await started(tmp_path)
    for fault in faults:
        await attempt(harness, fault)
    await attempt(harness)
    found = await asked(harness)
    assert steps(found) == came_to
    assert [each.row is not None for each in found.tasks[0].attempts] == [True] * len(came_to)
    assert found.missing == ()


@pytest.mark.parametrize("policy", [PolicySetting.HEAD_PARENT, PolicySetting.LINEAGE])
async def test_the_other_policies_show_what_a_retry_published_again(
    tmp_path: Path, policy: PolicySetting
) -> None:
    harness = await started(tmp_path, policy)
    await attempt(harness, crash(after="merge"))
    await attempt(harness)
    found = await asked(harness)
    before = "published" if policy is PolicySetting.LINEAGE else "replaced"
    assert steps(found) == [before, "published"]
    assert decision_state(found.tasks[0]) is DecisionState.NONE


async def test_an_attempt_that_changed_nothing_kept_its_input(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, changes=False)
    await harness.start()
    await attempt(harness)
    assert steps(await asked(harness)) == ["kept"]


async def test_a_task_that_kept_what_the_task_before_it_published_adopted_nothing(
    tmp_path: Path,
) -> None:
    """Nor later, when another workflow has published."""

    def same(workspace: Path, _: int) -> None:
        (workspace / "out.txt").write_text("the same")

    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, body=same)
    await _start_tasks(harness, 2)
    two = Question(harness.workflow)
    await attempt(harness)
    await attempt(harness)
    assert steps(await asked(harness, two)) == ["published", "kept"]
    harness.body = write
    await harness.start(harness.workspace(ref=harness.repository.head().commit))
    await attempt(harness)
    assert steps(await asked(harness)) == ["published"]
    assert steps(await asked(harness, two)) == ["published", "kept"]


async def test_a_retry_that_conductor_keeps_back_is_explained_by_the_failure_before_it(
    tmp_path: Path,
) -> None:
    def broken(_: Path, __: int) -> None:
        raise ValueError("no trip that long")

    harness = await AttemptHarness(tmp_path, PolicySetting.SETTLED, body=broken).started()
    # A running workflow has the definition of its start.
    await harness.operator.workflows.terminate(harness.workflow, "another one is worked on")
    await harness.operator.definitions.put(
        {"name": TASK, "retryCount": 3, "retryDelaySeconds": 60, "responseTimeoutSeconds": 60}
    )
    given = {"workspace": harness.workspace()}
    harness.workflow = await harness.operator.workflows.start("flow", given)
    await harness.report()
    found = await asked(harness)
    explained = explain_workflow(found, found.workflows[0], harness.clock.now())
    assert explained.situation is Situation.RETRIES
    assert "ValueError: no trip that long [PRG-B004]; the next try, attempt 2" in explained.happened
    assert explained.happened.endswith(" s).")
    harness.clock.advance(61)
    explained = explain_workflow(found, found.workflows[0], harness.clock.now())
    assert explained.situation is Situation.QUEUED


async def test_a_foreign_commit_stands_between_and_the_refusal_has_its_code(
    tmp_path: Path,
) -> None:
    harness = await started(tmp_path)
    await attempt(harness, crash(after="decide"))
    foreign = harness.human()
    await attempt(harness)
    found = await asked(harness)
    (task,) = found.tasks
    assert steps(found) == ["decided", "polled"]
    assert task.attempts[1].code == "PRG-F002"
    roles = {record.commit: role for record, role in found.roles(found.branches[0])}
    assert roles == {foreign: CommitRole.FOREIGN, harness.input: CommitRole.INPUT}
    assert [each.branch.partition("-task-id")[0] for each in task.attempts[0].branches] == [
        f"perago-staging-{harness.workflow}-{TASK}-seq-1-iteration-0"
    ]


async def test_a_running_workflow_shows_who_waits(tmp_path: Path) -> None:
    harness = await started(tmp_path)
    assert steps(await asked(harness)) == ["queued"]


async def test_without_conductor_lakefs_tells_what_it_knows_and_what_is_missing_is_said(
    tmp_path: Path,
) -> None:
    harness = await started(tmp_path)
    await attempt(harness, crash(before="branch"))
    await attempt(harness, crash(after="decide"))
    await attempt(harness)
    question = Question(harness.workflow, REPOSITORY)
    for found in (
        await asked(harness, question, with_conductor=False),
        await asked(harness, question, always(unavailable("workflows.read"))),
    ):
        assert steps(found) == ["decided", "published"]
        assert [each.retry_count for each in found.tasks[0].attempts] == [1, 2]
        assert all(each.began for each in found.tasks[0].attempts)
        assert "status, worker and reason of attempts are missing" in found.missing[0]
    with pytest.raises(NowhereToLookError, match="nothing says to which repository"):
        await asked(harness, with_conductor=False)


async def test_a_lakefs_that_is_away_leaves_the_rows(tmp_path: Path) -> None:
    harness = await started(tmp_path)
    await attempt(harness)
    found = await asked(harness, None, always(unavailable("commits.first_parents")))
    assert steps(found) == ["completed"]
    assert found.missing[0].startswith("lakeFS was not read to the end for repo")


async def test_a_decision_that_gc_has_taken_is_said_to_be_gone(tmp_path: Path) -> None:
    harness = await started(tmp_path)
    await attempt(harness, crash(after="decide"))
    await attempt(harness)
    harness.clock.advance(8 * DAY)
    await collect(harness, times=RetentionTimes())
    found = await asked(harness)
    assert steps(found) == ["decided", "published"]
    assert decision_state(found.tasks[0]) is DecisionState.REMOVED
    assert "Garbage collection removes decisions 7 days after" in found.missing[0]


async def test_a_task_that_was_reset_says_so(tmp_path: Path) -> None:
    harness = await started(tmp_path)
    await attempt(harness, crash(after="decide"))
    await harness.operator.workflows.terminate(harness.workflow, "the operator looks at it")
    await harness.reset_task()
    found = await asked(harness)
    assert decision_state(found.tasks[0]) is DecisionState.RESET


async def test_a_branch_shows_the_workflows_of_the_last_hours(tmp_path: Path) -> None:
    harness = await started(tmp_path)
    await attempt(harness)
    first = harness.workflow
    harness.clock.advance(2 * DAY)
    harness.input = harness.repository.head().commit
    await harness.start()
    await attempt(harness, crash(after="decide"))
    question = Question(None, REPOSITORY, None, timedelta(hours=24))
    found = await asked(harness, question)
    assert [each.workflow_id for each in found.workflows] == [harness.workflow]
    assert steps(found) == ["decided", "queued"]
    both = await asked(harness, Question(None, REPOSITORY, None, timedelta(days=3)))
    assert {each.workflow_id for each in both.workflows} == {first, harness.workflow}


async def _start_tasks(harness: AttemptHarness, count: int) -> None:
    """A workflow that runs the task again and again, each on the output of the one before."""
    await harness.start()
    await harness.operator.workflows.terminate(harness.workflow, "another one is worked on")
    rows: list[dict[str, object]] = []
    workspace = "${workflow.input.workspace}"
    for number in range(count):
        given: dict[str, object] = {"workspace": workspace, "params": {}}
        row = {"name": TASK, "taskReferenceName": f"edit{number}", "type": "SIMPLE"}
        rows.append({**row, "inputParameters": given})
        workspace = f"${{edit{number}.output.workspace}}"
    definition = {"name": "long", "version": 1, "schemaVersion": 2, "tasks": rows}
    await harness.operator.workflows.put_definition(definition)
    start = harness.operator.workflows.start("long", {"workspace": harness.workspace()})
    harness.workflow = await start


async def _three_hundred_attempts(tmp_path: Path) -> AttemptHarness:
    """A hundred tasks after each other: one died decided, one died published, one adopted."""
    harness = AttemptHarness(tmp_path, PolicySetting.SETTLED, body=write)
    await _start_tasks(harness, ATTEMPTS // 3)
    for _ in range(ATTEMPTS // 3):
        await attempt(harness, crash(after="decide"))
        await attempt(harness, crash(after="merge"))
        await attempt(harness)
    return harness


@pytest.mark.scale
@pytest.mark.parametrize("with_conductor", [True, False])
async def test_three_hundred_attempts_cost_at_most_thirty_requests(
    tmp_path: Path, *, with_conductor: bool
) -> None:
    harness = await _three_hundred_attempts(tmp_path)
    injector = FaultInjector([])
    question = Question(harness.workflow, REPOSITORY)
    begin = perf_counter()
    found = await asked(harness, question, injector=injector, with_conductor=with_conductor)
    seconds = perf_counter() - begin
    expected = ["decided", "published", *(["adopted"] if with_conductor else [])]
    assert steps(found) == expected * (ATTEMPTS // 3)
    assert injector.calls.total() <= REQUESTS_MAX, injector.calls
    assert seconds < SECONDS_MAX


async def test_the_tasks_of_a_finished_run_are_found_although_its_branch_is_gone(
    tmp_path: Path,
) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.until(None)
    found = await asked(harness)
    published = {task.reference: how_far(task.attempts[0]) for task in found.tasks}
    assert published == {
        "begin": "completed",
        "one": "published",
        "two": "published",
        "finish": "published",
    }
    assert found.missing == ()
    assert {each.branch for each in found.branches} == {"main", (await harness.begun()).run_branch}


@pytest.mark.parametrize("history", History)
async def test_a_finished_run_is_explained_by_its_commit_on_the_target(
    tmp_path: Path, history: History
) -> None:
    """A new user read that Conductor did not count it, and that a run was left."""
    harness = await RunHarness(tmp_path, history=history).started()
    await harness.until(None)
    found = await asked(harness)
    head = harness.repository.head().commit
    explained = explain_workflow(found, found.workflows[0], harness.clock.now())
    assert explained.situation is Situation.COMPLETED
    assert explained.left == (
        f"The run was published as commit {head[:12]} on branch main of repo, with 2 publications "
        "of its tasks, and Conductor counts it."
    )
