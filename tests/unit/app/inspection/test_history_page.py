"""What the page says of the servers: steps with and without a time, runs, foreign commits."""

import json
from pathlib import Path
from time import process_time

import pytest
from tests.unit.app.attempt.attempt_harness import AttemptHarness
from tests.unit.app.inspection.test_attempts import asked, attempt, started
from tests.unit.app.runs.run_harness import RunHarness

from perago.adapters.memory.installations import lakefs_installation
from perago.adapters.memory.system import WorkerHandle
from perago.app.inspection.watcher import page_of
from perago.app.page.model import (
    AttemptView,
    RunState,
    SceneView,
    Seen,
    Step,
    page_document,
)
from perago.app.page.page_server import Shown
from perago.domain import attempt_history as known
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, AttemptStatus, WorkflowStatus
from perago.domain.commit_metadata import LOGICAL_TASK_KEY, RETRY_COUNT
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId
from perago.testing.faults import crash

ATTEMPTS, SECONDS_MAX = 1000, 1.0


async def scene(
    harness: AttemptHarness, staged: dict[str, CommitRecord] | None = None
) -> SceneView:
    """What the page shows of the scene's workflow."""
    (only,) = page_of(await asked(harness), "", staged or {}, 0.0).scenes
    return only


def seen(view: AttemptView) -> list[str]:
    """The steps that are seen; one that follows from a later one is in brackets."""
    states = {Seen.SEEN: "{}", Seen.FOLLOWS: "({})", Seen.NOT_SEEN: ""}
    return [text for each in view.steps if (text := states[each.seen].format(each.name))]


def kinds(view: SceneView) -> dict[str, str]:
    """The kind of every commit."""
    branches = [branch for each in view.repositories for branch in each.branches]
    return {commit.id: commit.kind for branch in branches for commit in branch.commits}


async def test_a_retry_publishes_what_the_first_attempt_decided(tmp_path: Path) -> None:
    harness = await started(tmp_path)
    await attempt(harness, crash(after="decide"))
    await attempt(harness)
    view = await scene(harness)
    first, second = view.attempts
    assert seen(first) == ["queued", "polled", "(input)", "(ran)", "staged", "decided", "ended"]
    assert seen(second) == ["queued", "polled", "published", "ended"]
    staged = {step.name: step for step in first.steps}[Step.STAGED]
    assert staged.ref in kinds(view)
    assert kinds(view)[staged.ref or ""] == "staged"
    (task,) = view.workflows[0].tasks
    assert (task.status, task.attempts, task.decision) == ("COMPLETED", 2, "there")
    assert view.status == "COMPLETED"


async def test_a_time_is_shown_only_where_a_server_has_it(tmp_path: Path) -> None:
    harness = await started(tmp_path)
    await attempt(harness, crash(after="decide"))
    await attempt(harness)
    first, second = (await scene(harness)).attempts
    times = {step.name: step.at for step in first.steps}
    polled, ended = times[Step.POLLED], times[Step.ENDED]
    assert polled is not None
    assert ended is not None
    assert ended >= polled
    assert [times[step] for step in (Step.INPUT, Step.RAN, Step.STAGED, Step.DECIDED)] == [None] * 4
    assert {step.name: step.at for step in second.steps}[Step.PUBLISHED] is not None
    commit = {step.name: step.ref for step in first.steps}[Step.STAGED]
    record = CommitRecord(CommitId(commit or ""), (CommitId(harness.input),), created_at=5)
    again, _ = (await scene(harness, {record.commit: record})).attempts
    assert {step.name: step.at for step in again.steps}[Step.STAGED] == 5.0


async def test_events_are_said_to_be_elsewhere_and_what_is_left_is_named(tmp_path: Path) -> None:
    harness = await started(tmp_path)
    await attempt(harness, crash(before="decide"))
    first, second = (await scene(harness)).attempts
    assert first.events is None
    assert [each.partition("-seq")[0] for each in first.left] == [
        f"perago-staging-{harness.workflow}-edit"
    ]
    assert (second.status, second.ended, seen(second)) == ("SCHEDULED", False, ["queued"])


async def test_a_refusal_has_its_code_and_the_foreign_commit_is_drawn(tmp_path: Path) -> None:
    harness = await started(tmp_path)
    await attempt(harness, crash(after="decide"))
    foreign = harness.human()
    await attempt(harness)
    view = await scene(harness)
    assert view.attempts[1].code == "PRG-F002"
    assert "PRG-F002" in (view.attempts[1].reason or "")
    assert kinds(view)[foreign] == "foreign"
    assert kinds(view)[harness.input] == "root"


@pytest.mark.parametrize(
    ("until", "state"),
    [("perago.finish", RunState.OPEN), (None, RunState.PUBLISHED)],
    ids=["open", "published"],
)
async def test_a_run_is_shown_with_what_became_of_it(
    tmp_path: Path, until: str | None, state: RunState
) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.until(until)
    (run,) = (await scene(harness)).runs
    assert (run.state, run.target) == (state, "repo/main")
    assert run.branch == (await harness.begun()).run_branch
    assert (run.publication is not None) is (state is RunState.PUBLISHED)


async def test_a_run_whose_workflow_ended_before_finish_is_held(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.until("perago.finish")
    await harness.operator.workflows.terminate(harness.workflow, "the operator looks at it")
    view = await scene(harness)
    assert [run.state for run in view.runs] == [RunState.HELD]
    assert view.status == "TERMINATED"


async def test_a_run_that_was_removed_is_gone(tmp_path: Path) -> None:
    harness = await RunHarness(tmp_path).started()
    await harness.until("perago.finish")
    branch = (await harness.begun()).run_branch
    lakefs = lakefs_installation(harness.lakefs, WorkerHandle())
    await lakefs.branches.delete(RepositoryId("repo"), BranchName(branch))
    assert [run.state for run in (await scene(harness)).runs] == [RunState.GONE]


def thousand_attempts() -> known.AttemptHistory:
    """A hundred tasks of ten attempts; the last of each published, the others staged."""
    tasks: list[known.TaskHistory] = []
    commits: list[CommitRecord] = []
    repository, head = RepositoryId("repo"), CommitId("c0")
    for number in range(ATTEMPTS // 10):
        key = f"w/task-{number}/0"
        task = known.TaskHistory(key)
        for retry in range(10):
            last, row_id = retry == 9, f"t-{number}-{retry}"
            status = AttemptStatus.COMPLETED if last else AttemptStatus.FAILED
            began = 1_700_000_000_000 + 60_000 * (10 * number + retry)
            row = AttemptSnapshot(
                *("w", row_id, f"task-{number}", "clean", status, retry),
                start_time=began + 2_000,
                scheduled_time=began,
                poll_count=1,
                worker_id=f"host-{retry % 4}:4242",
            )
            reason = None if last else "lakeFS was not reached [UnavailableError PRG-L010]"
            given = {"workspace": {"repository": "repo", "branch": "main", "ref": head}}
            record = AttemptRecord(row, given, reason=reason, ended_at=began + 50_000)
            evidence = known.AttemptEvidence(row_id, key, retry, record)
            evidence.staged = CommitId(f"staged-{number}-{retry}")
            task.attempts.append(evidence)
        before, head = head, CommitId(f"c{number + 1}")
        said = {LOGICAL_TASK_KEY: key, RETRY_COUNT: "9"}
        made = CommitRecord(
            head, (before,), said, f"perago {number}", created_at=1_700_000_000 + number
        )
        task.attempts[-1].published(made)
        commits.insert(0, made)
        tasks.append(task)
    branch = known.BranchHistory(repository, BranchName("main"), tuple(commits))
    workflow = known.WorkflowFacts("w", WorkflowStatus.RUNNING)
    return known.AttemptHistory((workflow,), tuple(tasks), (branch,), ())


def test_a_thousand_attempts_are_made_into_a_page_in_less_than_a_second() -> None:
    history = thousand_attempts()
    begin = process_time()
    page = page_of(history, "watch", {}, 1_700_060_000.0)
    body = Shown(page).body
    seconds = process_time() - begin
    assert len(json.loads(body)["page"]["scenes"][0]["attempts"]) == ATTEMPTS
    assert seconds < SECONDS_MAX, seconds


def test_the_document_is_plain_json() -> None:
    document = page_document(page_of(thousand_attempts(), "watch", {}, 1.0))
    assert json.loads(json.dumps(document)) == document
