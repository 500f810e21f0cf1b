"""How far an attempt came, what became of a decision, and whose a commit is."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from perago.domain.attempt import (
    AttemptRecord,
    AttemptSnapshot,
    AttemptStatus,
    ExecutionId,
    WorkflowStatus,
)
from perago.domain.attempt_history import (
    AttemptEvidence,
    AttemptHistory,
    BranchHistory,
    CommitRole,
    DecisionState,
    LeftBranch,
    LeftTag,
    Reached,
    TaskHistory,
    WorkflowFacts,
    addresses_in,
    decision_state,
    how_far,
    newest,
)
from perago.domain.commit_metadata import (
    EXECUTION_ID,
    FENCE_OWNER,
    LOGICAL_EXECUTION_KEY,
    LOGICAL_TASK_KEY,
    PHASE,
)
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId, TagName
from perago.domain.names import execution_id_at

KEY = "w/clean/0"
REPOSITORY, MAIN = RepositoryId("repo"), BranchName("main")
MOMENT_MS = 1_767_225_600_000
MINE = CommitRecord(CommitId("mine"), (), {LOGICAL_TASK_KEY: KEY, PHASE: "confirm"})
DECISION = LeftTag(REPOSITORY, TagName("perago-settled-w-a-b"), CommitId("s"))
BRANCH = LeftBranch(REPOSITORY, BranchName("perago-staging-x"), CommitId("head"))


def row(
    status: AttemptStatus, reason: str = "", *, output: str = "", polls: int = 1
) -> AttemptRecord:
    """A row of the task on input `in`."""
    snapshot = AttemptSnapshot("w", "t1", "clean", "clean", status, poll_count=polls)
    given = {"workspace": {"repository": "repo", "branch": "main", "ref": "in"}}
    gave = {"workspace": {"ref": output}} if output else {}
    return AttemptRecord(snapshot, given, gave, reason or None)


def attempt(found: AttemptRecord | None = None, **facts: object) -> AttemptEvidence:
    """What is known of the first attempt."""
    evidence = AttemptEvidence("t1", KEY, 0, row=found)
    for name, value in facts.items():
        setattr(evidence, name, value)
    return evidence


LOST = row(AttemptStatus.TIMED_OUT, "responseTimeout: 60 exceeded")


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (AttemptStatus.FAILED, "ValueError: broken", "PRG-B004"),
        (AttemptStatus.FAILED, "KeyError", "PRG-B004"),
        (AttemptStatus.FAILED, "OSError: two\nlines", "PRG-B004"),
        (AttemptStatus.FAILED, "x [PublishFenceError PRG-F002]", "PRG-F002"),
        (AttemptStatus.FAILED, "the author's own words", None),
        (AttemptStatus.FAILED, "", None),
        (AttemptStatus.FAILED_WITH_TERMINAL_ERROR, "Enough: of this", None),
        (AttemptStatus.TIMED_OUT, "Lost: no heartbeat", None),
    ],
)
def test_a_raised_exception_has_a_code_that_its_reason_does_not_say(
    status: AttemptStatus, reason: str, code: str | None
) -> None:
    found = attempt(row(status, reason))
    assert found.code == code
    assert found.reason_with_code == (f"{reason} [PRG-B004]" if code == "PRG-B004" else reason)


@pytest.mark.parametrize(
    ("seen", "came_to"),
    [
        (attempt(row(AttemptStatus.COMPLETED, output="c"), output_by="t2"), Reached.ADOPTED),
        (attempt(row(AttemptStatus.COMPLETED, output="c"), output_by="t1"), Reached.COMPLETED),
        (attempt(LOST, publications=[MINE], decided=True, staged="s"), Reached.PUBLISHED),
        (attempt(LOST, replaced=DECISION, staged="s"), Reached.REPLACED),
        (attempt(row(AttemptStatus.COMPLETED, output="in")), Reached.KEPT),
        # Its input is what the task before it published: it read that, and changed nothing.
        (attempt(row(AttemptStatus.COMPLETED, output="in"), output_by="t0"), Reached.KEPT),
        (attempt(row(AttemptStatus.COMPLETED)), Reached.COMPLETED),
        (
            attempt(row(AttemptStatus.FAILED, "publication outcome unknown: x"), decided=True),
            Reached.UNKNOWN,
        ),
        (attempt(LOST, decided=True, staged="s", branches=[BRANCH]), Reached.DECIDED),
        (attempt(LOST, staged="s", branches=[BRANCH]), Reached.STAGED),
        (attempt(LOST, branches=[BRANCH]), Reached.STAGING),
        (attempt(LOST, checkpoints=[BRANCH]), Reached.RAN),
        (attempt(row(AttemptStatus.FAILED, "ValueError: no rows")), Reached.RAN),
        (attempt(row(AttemptStatus.FAILED, "broken [PostGuardrail PRG-G002]")), Reached.RAN),
        (attempt(row(AttemptStatus.FAILED, "broken [PreGuardrail PRG-G001]")), Reached.POLLED),
        (attempt(row(AttemptStatus.FAILED, "moved [Fence PRG-F002]")), Reached.POLLED),
        (attempt(row(AttemptStatus.SCHEDULED, "drain", polls=1)), Reached.HANDED_BACK),
        (attempt(row(AttemptStatus.SCHEDULED, "of the last one", polls=0)), Reached.QUEUED),
        (attempt(row(AttemptStatus.IN_PROGRESS)), Reached.POLLED),
        (attempt(LOST), Reached.POLLED),
        (attempt(), Reached.POLLED),
    ],
)
def test_the_furthest_step_that_is_proven_counts(seen: AttemptEvidence, came_to: Reached) -> None:
    assert how_far(seen) is came_to


def test_a_retry_in_its_queue_has_no_reason_of_its_own() -> None:
    """Conductor copies the reason of the attempt before it."""
    waits = attempt(row(AttemptStatus.SCHEDULED, "x [PublishFenceError PRG-F002]", polls=0))
    assert (waits.reason, waits.code) == ("", None)
    polled = attempt(row(AttemptStatus.FAILED, "x [PublishFenceError PRG-F002]"))
    assert polled.code == "PRG-F002"


def test_the_time_of_an_attempt_is_read_from_its_execution_where_conductor_is_silent() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    execution = execution_id_at(MOMENT_MS, 1)
    assert attempt().began is None
    silent = attempt()
    silent.published(replace(MINE, metadata={**MINE.metadata, EXECUTION_ID: execution}))
    silent.saw(ExecutionId(execution))
    assert silent.began == moment
    assert silent.executions == [execution]
    started = row(AttemptStatus.IN_PROGRESS)
    told = replace(started, snapshot=replace(started.snapshot, start_time=MOMENT_MS + 1000))
    assert attempt(told).began == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)


SETTLED = replace(MINE, metadata={**MINE.metadata, LOGICAL_EXECUTION_KEY: "w-a-b"})


@pytest.mark.parametrize(
    ("decisions", "was_reset", "published", "state"),
    [
        ([DECISION], False, [SETTLED], DecisionState.THERE),
        ([DECISION], True, [], DecisionState.THERE),
        ([], True, [SETTLED], DecisionState.RESET),
        ([], False, [SETTLED], DecisionState.REMOVED),
        ([], False, [MINE], DecisionState.NONE),
        ([], False, [], DecisionState.NONE),
    ],
)
def test_what_became_of_a_decision(
    decisions: list[LeftTag],
    *,
    was_reset: bool,
    published: list[CommitRecord],
    state: DecisionState,
) -> None:
    task = TaskHistory(KEY, [attempt(publications=published)], decisions, was_reset)
    assert decision_state(task) is state


@pytest.mark.parametrize(
    ("commit", "metadata", "role"),
    [
        ("mine", MINE.metadata, CommitRole.PUBLICATION),
        ("in", {**MINE.metadata}, CommitRole.PUBLICATION),
        ("other", {LOGICAL_TASK_KEY: "w2/clean/0", PHASE: "confirm"}, CommitRole.OTHER),
        ("relocated", {LOGICAL_TASK_KEY: KEY, PHASE: "try"}, CommitRole.PUBLICATION),
        ("fence", {LOGICAL_TASK_KEY: FENCE_OWNER}, CommitRole.FENCE),
        ("in", {}, CommitRole.INPUT),
        ("human", {"who": "me"}, CommitRole.FOREIGN),
    ],
)
def test_whose_a_commit_is(commit: str, metadata: dict[str, str], role: CommitRole) -> None:
    record = CommitRecord(CommitId(commit), (), metadata)
    branch = BranchHistory(REPOSITORY, MAIN, (record,))
    task = TaskHistory(KEY, [attempt(LOST)])
    facts = WorkflowFacts("w", WorkflowStatus.RUNNING)
    history = AttemptHistory((facts,), (task,), (branch,), ())
    assert list(history.roles(branch)) == [(record, role)]


def test_a_task_is_named_by_its_reference_and_its_iteration() -> None:
    assert TaskHistory("w/a/b/0").name == "a/b"
    assert TaskHistory("w/clean/2").name == "clean#2"
    assert (TaskHistory(KEY).workflow_id, TaskHistory(KEY).reference) == ("w", "clean")


def test_a_publication_is_recorded_if_a_completed_row_reports_it() -> None:
    done = attempt(row(AttemptStatus.COMPLETED, output="mine"))
    died = attempt(LOST, publications=[MINE])
    assert TaskHistory(KEY, [died, done]).recorded == MINE
    assert TaskHistory(KEY, [died]).recorded is None
    assert newest([died, attempt(None, retry_count=3)]).retry_count == 3


@pytest.mark.parametrize(
    ("result", "more"),
    [
        (None, []),
        ({"workspace": "main", "run": None}, []),
        ({"workspace": {"branch": "other"}}, ["other"]),
        (
            {"workspace": {"branch": "perago-run-w"}, "run": {"branch": "main"}},
            ["perago-run-w", "main"],
        ),
    ],
    ids=["no result", "of another form", "a task of a run", "the begin of a run"],
)
def test_a_row_names_the_branch_of_its_input_and_those_of_its_result(
    result: object, more: list[str]
) -> None:
    found = replace(row(AttemptStatus.COMPLETED), output_data={"result": result})
    assert [each["branch"] for each in addresses_in(found)] == ["main", *more]
    assert list(addresses_in(replace(found, input_data={}, output_data={}))) == []
