"""What happened to a workflow and what to do: the table, and the sentences made of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.domain.test_attempt_history import (
    DECISION,
    KEY,
    LOST,
    MAIN,
    MINE,
    REPOSITORY,
    attempt,
    row,
)

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.domain.attempt_history import (
    AttemptEvidence,
    AttemptHistory,
    BranchHistory,
    TaskHistory,
    WorkflowFacts,
)
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.lakefs import BranchName, CommitId, CommitRecord
from perago.domain.workflow_explanation import (
    Explanation,
    Situation,
    explain_workflow,
    situation_of,
    task_in_question,
)

FAILED = WorkflowStatus.FAILED
MOVED = "x [PublishFenceError PRG-F002]"
NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
TERMINAL = AttemptStatus.FAILED_WITH_TERMINAL_ERROR


def retry(delay_seconds: int, waited_seconds: int = 10) -> AttemptEvidence:
    """The second attempt in its queue; the server copied the reason of the first one to it."""
    found = row(AttemptStatus.SCHEDULED, "copied", polls=0)
    scheduled = int((NOW - timedelta(seconds=waited_seconds)).timestamp() * 1000)
    snapshot = replace(found.snapshot, retry_count=1, seq=2, scheduled_time=scheduled)
    return AttemptEvidence(
        "t2", KEY, 1, row=replace(found, snapshot=snapshot, delay_seconds=delay_seconds)
    )


def facts(status: WorkflowStatus | None = FAILED) -> WorkflowFacts:
    """A workflow as Conductor shows it."""
    return WorkflowFacts("w", status)


def task(*attempts: AttemptEvidence, decided: bool = False) -> TaskHistory:
    """A task with these attempts."""
    return TaskHistory(KEY, list(attempts), [DECISION] if decided else [])


def explained(
    of: TaskHistory | None,
    status: WorkflowStatus | None = FAILED,
    *,
    reason: str | None = None,
) -> Explanation:
    """The three sentences."""
    workflow = replace(facts(status), reason=reason)
    tasks = () if of is None else (of,)
    return explain_workflow(AttemptHistory((workflow,), tasks, (), ()), workflow, NOW)


@pytest.mark.parametrize(
    ("status", "of", "situation"),
    [
        (None, task(attempt(LOST)), Situation.UNKNOWN),
        (WorkflowStatus.COMPLETED, task(attempt(LOST)), Situation.COMPLETED),
        (WorkflowStatus.PAUSED, task(attempt(LOST)), Situation.PAUSED),
        (WorkflowStatus.RUNNING, None, Situation.NOTHING_BEGAN),
        (WorkflowStatus.RUNNING, task(attempt(row(AttemptStatus.SCHEDULED))), Situation.QUEUED),
        (WorkflowStatus.RUNNING, task(attempt(row(AttemptStatus.IN_PROGRESS))), Situation.RUNS),
        (WorkflowStatus.RUNNING, task(attempt(LOST)), Situation.RUNS),
        (WorkflowStatus.RUNNING, task(attempt(LOST), retry(60)), Situation.RETRIES),
        (WorkflowStatus.RUNNING, task(attempt(LOST), retry(5)), Situation.QUEUED),
        (WorkflowStatus.RUNNING, task(attempt(LOST), retry(0)), Situation.QUEUED),
        (WorkflowStatus.RUNNING, task(retry(60)), Situation.QUEUED),
        (FAILED, task(attempt(LOST, publications=[MINE]), decided=True), Situation.PUBLISHED),
        (FAILED, task(attempt(LOST), decided=True), Situation.DECIDED),
        (FAILED, task(attempt(row(TERMINAL, MOVED)), decided=True), Situation.REFUSED),
        (
            FAILED,
            task(attempt(row(AttemptStatus.FAILED, "ValueError: x"))),
            Situation.FUNCTION_FAILED,
        ),
        (FAILED, task(attempt(row(AttemptStatus.FAILED, MOVED))), Situation.REFUSED),
        (FAILED, task(attempt(LOST)), Situation.LOST),
        (
            WorkflowStatus.TERMINATED,
            task(attempt(row(AttemptStatus.CANCELED))),
            Situation.STOPPED,
        ),
    ],
)
def test_a_situation_is_found_by_the_workflow_and_its_newest_attempt(
    status: WorkflowStatus | None, of: TaskHistory | None, situation: Situation
) -> None:
    assert situation_of(facts(status), of, NOW) is situation
    found = explained(of, status)
    assert found.situation is situation
    for sentence in (found.happened, found.left, found.to_do):
        assert sentence.endswith(".")
        assert "\n" not in sentence
    assert found.command


def test_a_refusal_has_the_remedy_of_its_code_with_the_names_of_the_workflow() -> None:
    found = explained(task(attempt(row(AttemptStatus.FAILED, MOVED))))
    assert "attempt 1 of task clean ended as FAILED, came to `polled`: x [" in found.happened
    assert found.left == (
        "Task clean has published nothing; "
        "0 of 1 tasks that have begun have a publication on a target branch."
    )
    assert "perago head repo main" in found.command
    assert found.command in found.to_do
    unknown = explained(task(attempt(row(AttemptStatus.FAILED, "x [Unknown PRG-U001]"))))
    assert "perago submit" not in unknown.to_do


def test_a_workflow_that_has_to_begin_anew_is_started_by_the_command_that_is_shown() -> None:
    """A new user was sent to `perago submit --help`."""
    refused = task(attempt(row(TERMINAL, "x [RunRefusedError PRG-N004]")))
    run = BranchHistory(REPOSITORY, BranchName("perago-run-w-1"), (MINE,))
    target = BranchHistory(REPOSITORY, MAIN, ())
    workflow = replace(facts(), name="flow")
    history = AttemptHistory((workflow,), (refused,), (run, target), ())
    found = explain_workflow(history, workflow, NOW)
    assert found.command == "perago submit flow --repo repo --branch main"
    assert f"`{found.command}` does both" in found.to_do


def test_a_publication_that_conductor_does_not_count_is_named() -> None:
    found = explained(task(attempt(LOST, publications=[MINE])))
    assert "has published mine and Conductor does not count it" in found.left
    assert found.command == 'curl -X POST "$PERAGO_CONDUCTOR/workflow/w/retry"'


def test_a_retry_that_waits_says_why_the_attempt_before_it_failed_and_when_it_is_due() -> None:
    """A new user was told to start a worker, while his worker had just failed the task."""
    refused = row(AttemptStatus.FAILED, "ValidationError: params.name: Field required [PRG-I003]")
    found = explained(task(attempt(refused), retry(60)), WorkflowStatus.RUNNING)
    assert found.happened == (
        "Workflow w is RUNNING: attempt 1 of task clean ended as FAILED, came to `polled`: "
        "ValidationError: params.name: Field required [PRG-I003]; "
        "the next try, attempt 2, is at 12:00:50 UTC (in 50 s)."
    )
    assert found.command.startswith("perago run MODULE --task clean --repo lakefs://repo/in ")
    assert found.to_do.endswith(" MODULE is the Python module that declares clean.")
    raised = row(AttemptStatus.FAILED, "ValueError: broken")
    found = explained(task(attempt(raised), retry(60)), WorkflowStatus.RUNNING)
    assert "came to `ran`: ValueError: broken [PRG-B004]; the next try" in found.happened
    assert "restart the worker" in found.to_do
    chosen = row(AttemptStatus.FAILED, "the author's own words")
    found = explained(task(attempt(chosen), retry(60)), WorkflowStatus.RUNNING)
    assert found.to_do.startswith("Conductor tries again by itself")
    assert found.command == "perago attempts w"


def test_a_retry_that_no_worker_polls_though_it_is_due_asks_for_a_worker() -> None:
    raised = row(AttemptStatus.FAILED, "ValueError: broken")
    found = explained(task(attempt(raised), retry(5)), WorkflowStatus.RUNNING)
    assert "ValueError: broken [PRG-B004]; attempt 2 of task clean waits in its" in found.happened
    assert "no worker has polled it" in found.happened
    assert found.command == "perago start MODULE"


def test_a_raised_exception_asks_for_a_worker_with_the_corrected_code() -> None:
    found = explained(task(attempt(row(AttemptStatus.FAILED, "ValueError: broken"))))
    assert "ValueError: broken [PRG-B004]." in found.happened
    assert "restart the worker" in found.to_do
    assert found.command == 'curl -X POST "$PERAGO_CONDUCTOR/workflow/w/retry"'


def test_a_long_reason_keeps_the_code_at_its_end() -> None:
    long = f"cannot publish: {'words of many writers ' * 20}[PublishFenceError PRG-F002]"
    found = explained(task(attempt(row(TERMINAL, long))))
    assert found.happened.endswith("... [PRG-F002].")


def test_a_long_reason_is_shortened() -> None:
    found = explained(task(attempt(row(AttemptStatus.FAILED, "x" * 5000))))
    assert len(found.happened) < 400
    assert found.happened.endswith("xxx....")


def test_a_row_in_the_queue_of_a_domain_asks_for_a_worker_that_polls_there() -> None:
    waits = replace(row(AttemptStatus.SCHEDULED, polls=0), domain="blue")
    found = explained(task(attempt(waits)), WorkflowStatus.RUNNING)
    assert "waits in its queue in the domain blue and no worker has polled it" in found.happened
    assert found.command == "perago start MODULE --domain blue"
    assert "--domain" in found.to_do
    usual = explained(task(attempt(row(AttemptStatus.SCHEDULED))), WorkflowStatus.RUNNING)
    assert usual.command == "perago start MODULE"
    assert "`perago doctor MODULE`" in usual.to_do


def test_commits_in_a_reason_are_shortened_so_that_the_cause_is_read() -> None:
    reason = f"cannot publish from {'a' * 64}; head is {'b' * 64}; another writer published"
    found = explained(task(attempt(row(TERMINAL, f"{reason}{MOVED}"))))
    assert f"from {'a' * 12}; head is {'b' * 12}; another writer published" in found.happened


def test_attempts_that_ended_the_same_way_are_counted() -> None:
    again = [attempt(row(TERMINAL, MOVED)) for _ in range(3)]
    assert "; its last 3 attempts ended with PRG-F002." in explained(task(*again)).happened
    other = attempt(row(AttemptStatus.FAILED, "y [RunRefusedError PRG-N004]"))
    assert "attempts ended" not in explained(task(*again, other)).happened
    assert "last 2 attempts" in explained(task(other, *again[:2])).happened


def test_a_publication_on_the_branch_of_a_run_is_not_on_the_target() -> None:
    run = BranchHistory(REPOSITORY, BranchName("perago-run-w-1"), (MINE,))
    of = task(attempt(row(AttemptStatus.COMPLETED, output="mine"), publications=[MINE]))
    refused = TaskHistory("w/finish/0", [attempt(row(TERMINAL, "x [RunRefusedError PRG-N004]"))])
    history = AttemptHistory((facts(),), (of, refused), (run,), ())
    left = explain_workflow(history, facts(), NOW).left
    assert "0 of 2 tasks that have begun have a publication on a target branch" in left
    assert left.endswith("; 1 have theirs on a run, which `perago runs repo` lists.")
    target = BranchHistory(REPOSITORY, MAIN, (MINE,))
    history = replace(history, branches=(run, target))
    assert "1 of 2 tasks" in explain_workflow(history, facts(), NOW).left


@pytest.mark.parametrize(
    ("decided", "sentence"),
    [
        (False, "Task clean may have published, which is not known, because"),
        (True, "Task clean has decided on s, and may have published, which is not known, because"),
    ],
)
def test_a_server_that_did_not_answer_leaves_open_what_was_published(
    decided: bool,  # noqa: FBT001  # a row
    sentence: str,
) -> None:
    of = task(attempt(row(AttemptStatus.COMPLETED)), decided=decided)
    found = explained(of, WorkflowStatus.COMPLETED)
    assert "published nothing" in found.left
    history = AttemptHistory((facts(),), (of,), (), ("away",), unanswered=("away",))
    left = explain_workflow(history, facts(), NOW).left
    assert left.startswith(f"{sentence} a server did not answer; at least 0 of 1 tasks")


def test_commits_of_a_fork_are_those_of_its_child_workflows() -> None:
    workflow = replace(facts(WorkflowStatus.COMPLETED), children=("left", "right"))
    metadata = [{LOGICAL_TASK_KEY: f"{each}/a/0"} for each in ("left", "right", "stranger")]
    commits = [CommitRecord(CommitId(str(each)), (), each) for each in [*metadata, {}]]
    joined, target = task(attempt(LOST)), BranchHistory(REPOSITORY, MAIN, tuple(commits))
    found = explain_workflow(AttemptHistory((workflow,), (joined,), (target,), ()), workflow, NOW)
    assert "; 2 commits there by its child workflows" in found.left
    assert found.left.endswith("; 1 commit there by others.")


def test_a_workflow_without_a_row_says_why_conductor_ended_it() -> None:
    found = explained(None, FAILED, reason="no such definition")
    assert found.happened == (
        "Workflow w is FAILED, and no task of it has an attempt: no such definition."
    )


def test_the_task_in_question_is_the_newest_that_is_not_done() -> None:
    done = TaskHistory("w/first/0", [attempt(row(AttemptStatus.COMPLETED))])
    open_task = TaskHistory("w/second/0", [attempt(LOST)])
    history = AttemptHistory((facts(),), (done, open_task), (), ())
    assert task_in_question(history, "w") is open_task
    assert task_in_question(history, "another") is None
