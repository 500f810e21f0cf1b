"""The key K: equal for all retries of one scheduled task, different for whatever a user starts."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.attempt import AttemptSnapshot, AttemptStatus
from perago.domain.logical_execution import (
    AttemptMark,
    Epoch,
    LogicalExecutionKey,
    attempt_mark_tag,
    attempt_marks_of_task,
    chain_hash,
    decision_tag,
    decision_tags_of_chain,
    execution_key,
    find_epoch,
    parse_attempt_mark,
    retry_chain,
    short_hash,
    workflow_of_tag,
    workflow_segment,
)
from perago.domain.references import (
    BranchName,
    CommitId,
    RepositoryId,
    TagName,
    WorkspaceReference,
)

PLACE = WorkspaceReference(RepositoryId("songs"), BranchName("main"), CommitId("A"))


def row(
    task_id: str, *, at: int, retries: str | None = None, count: int = 0, iteration: int = 0
) -> AttemptSnapshot:
    return AttemptSnapshot(
        workflow_id="wf",
        task_id=task_id,
        reference_name="mix",
        task_type="mix_stems",
        status=AttemptStatus.IN_PROGRESS,
        retry_count=count,
        iteration=iteration,
        scheduled_time=at,
        retried_task_id=retries,
    )


FIRST = row("t0", at=10)
SECOND = row("t1", at=20, retries="t0", count=1)
THIRD = row("t2", at=30, retries="t1", count=2)


def mark(task_id: str, *, at: int) -> AttemptMark:
    return AttemptMark(short_hash(task_id), at)


def rerun(attempt: AttemptSnapshot, *, at: int) -> AttemptSnapshot:
    """What a user's rerun does to a row, as seen on the real server."""
    return replace(attempt, scheduled_time=at)


@pytest.mark.parametrize(
    ("mine", "rows", "marks", "epoch"),
    [
        (FIRST, [FIRST], [], Epoch("t0", 10)),
        (FIRST, [], [], Epoch("t0", 10)),
        (SECOND, [FIRST, SECOND], [mark("t1", at=20)], Epoch("t0", 10)),
        (THIRD, [FIRST, SECOND, THIRD], [mark("t1", at=20), mark("t2", at=30)], Epoch("t0", 10)),
        (THIRD, [THIRD, FIRST, SECOND], [mark("t1", at=20), mark("t2", at=30)], Epoch("t0", 10)),
        (rerun(FIRST, at=50), [rerun(FIRST, at=50)], [], Epoch("t0", 50)),
        (
            rerun(SECOND, at=50),
            [FIRST, rerun(SECOND, at=50)],
            [mark("t1", at=20), mark("t1", at=50)],
            Epoch("t1", 50),
        ),
        (
            row("t9", at=60, retries="t1", count=2),
            [FIRST, rerun(SECOND, at=50), row("t9", at=60, retries="t1", count=2)],
            [mark("t1", at=20), mark("t1", at=50), mark("t9", at=60)],
            Epoch("t1", 50),
        ),
        (
            rerun(THIRD, at=80),
            [FIRST, rerun(SECOND, at=50), rerun(THIRD, at=80)],
            [mark("t1", at=20), mark("t1", at=50), mark("t2", at=30), mark("t2", at=80)],
            Epoch("t2", 80),
        ),
        (SECOND, [FIRST, SECOND], [mark("t7", at=5)], Epoch("t0", 10)),
        (SECOND, [FIRST, SECOND], [mark("t1", at=21)], Epoch("t0", 10)),
        (SECOND, [SECOND], [], Epoch("t1", 20)),
        (THIRD, [FIRST, THIRD], [], Epoch("t2", 30)),
        (SECOND, [FIRST, rerun(SECOND, at=50)], [mark("t1", at=20)], Epoch("t0", 10)),
    ],
    ids=[
        "first attempt",
        "first attempt, rows not read",
        "retry",
        "second retry",
        "rows in any order",
        "rerun of the first attempt",
        "rerun of a retry",
        "retry after a rerun of a retry",
        "rerun after a rerun",
        "somebody else's mark",
        "a mark that is not older",
        "the first row is gone",
        "a row between is gone",
        "a zombie of the row that was rerun keeps its own execution",
    ],
)
def test_the_epoch(
    mine: AttemptSnapshot, rows: list[AttemptSnapshot], marks: list[AttemptMark], epoch: Epoch
) -> None:
    assert find_epoch(mine, rows, marks) == epoch


def test_the_chain_goes_from_mine_to_the_first() -> None:
    other = row("z", at=1)
    assert retry_chain(THIRD, [other, FIRST, SECOND, THIRD]) == (THIRD, SECOND, FIRST)


def test_a_chain_that_bites_its_tail_ends() -> None:
    tail = row("t0", at=10, retries="t1")
    assert len(retry_chain(SECOND, [tail, SECOND])) == 1001


@dataclass
class Server:
    """One task as Conductor keeps it: users and time-outs change rows, attempts leave marks."""

    rows: list[AttemptSnapshot] = field(default_factory=lambda: [row("t0", at=1)])
    marks: set[AttemptMark] = field(default_factory=set[AttemptMark])
    time: int = 1
    started_by_user: int = 0
    seen: dict[LogicalExecutionKey, int] = field(default_factory=dict[LogicalExecutionKey, int])

    def work(self) -> None:
        """The newest attempt is dispatched: it leaves its mark and learns its key."""
        mine = self.rows[-1]
        if mine.retry_count > 0:
            left = parse_attempt_mark(attempt_mark_tag(mine))
            assert left is not None
            self.marks.add(left)
        key = execution_key(mine, find_epoch(mine, self.rows, self.marks), PLACE, "mix")
        assert self.seen.setdefault(key, self.started_by_user) == self.started_by_user
        same = [other for other, user in self.seen.items() if user == self.started_by_user]
        assert same == [key]

    def retry(self) -> None:
        """An automatic or manual retry: a new row that names the one before."""
        self.time += 1
        last = self.rows[-1]
        new = row(f"t{self.time}", at=self.time, retries=last.task_id, count=last.retry_count + 1)
        self.rows.append(new)

    def rerun(self, index: int) -> None:
        """A user reruns a row that was seen working; later rows go."""
        self.time += 1
        self.started_by_user += 1
        kept = self.rows[: index % len(self.rows) + 1]
        self.rows = [*kept[:-1], rerun(kept[-1], at=self.time)]


@given(st.lists(st.sampled_from(["work", "retry", "retry", *range(4)]), max_size=12))
def test_the_key_is_one_for_all_retries_and_another_after_every_rerun(
    events: list[str | int],
) -> None:
    server = Server()
    server.work()
    for event in events:
        if event == "retry":
            server.retry()
        elif isinstance(event, int):
            server.rerun(event)
        server.work()


EPOCH = Epoch("t0", 10)
KEY = execution_key(FIRST, EPOCH, PLACE, "mix")


@pytest.mark.parametrize(
    "other",
    [
        execution_key(replace(FIRST, workflow_id="wf2"), EPOCH, PLACE, "mix"),
        execution_key(replace(FIRST, reference_name="cut"), EPOCH, PLACE, "mix"),
        execution_key(replace(FIRST, iteration=1), EPOCH, PLACE, "mix"),
        execution_key(FIRST, Epoch("t1", 10), PLACE, "mix"),
        execution_key(FIRST, Epoch("t0", 11), PLACE, "mix"),
        execution_key(FIRST, EPOCH, replace(PLACE, repository=RepositoryId("films")), "mix"),
        execution_key(FIRST, EPOCH, replace(PLACE, branch=BranchName("dev")), "mix"),
        execution_key(FIRST, EPOCH, replace(PLACE, ref=CommitId("B")), "mix"),
        execution_key(FIRST, EPOCH, PLACE, "/"),
    ],
    ids=["workflow", "reference", "iteration", "epoch task", "epoch time", "repository", "branch",
         "input", "prefix"],
)  # fmt: skip
def test_the_key_differs_by(other: LogicalExecutionKey) -> None:
    assert other != KEY


@pytest.mark.parametrize(
    "same",
    [
        replace(FIRST, task_id="t7", retry_count=7),
        replace(FIRST, seq=9),
        replace(FIRST, poll_count=2, start_time=99, worker_id="w"),
        replace(FIRST, status=AttemptStatus.SCHEDULED, scheduled_time=77),
        replace(FIRST, retried=True, retried_task_id="t0", task_type="renamed"),
    ],
    ids=["retry", "seq", "redelivery", "requeue", "row facts"],
)
def test_the_key_does_not_differ_by(same: AttemptSnapshot) -> None:
    assert execution_key(same, EPOCH, PLACE, "mix") == KEY


def test_changed_inputs_of_one_chain_share_the_prefix_of_their_decisions() -> None:
    moved = execution_key(FIRST, EPOCH, replace(PLACE, ref=CommitId("B")), "mix")
    rerun_later = execution_key(FIRST, Epoch("t0", 11), PLACE, "mix")
    prefix = decision_tags_of_chain(KEY)
    assert decision_tag(KEY).startswith(prefix)
    assert decision_tag(moved).startswith(prefix)
    assert not decision_tag(rerun_later).startswith(prefix)


def test_names_are_as_the_specification_writes_them() -> None:
    chain = chain_hash(FIRST, EPOCH)
    place = short_hash("songs", "main", "mix", "A")
    assert chain == short_hash("wf", "mix", "0", "t0", "10")
    assert f"wf-{chain}-{place}" == KEY
    assert decision_tag(KEY) == f"perago-settled-{KEY}"
    assert decision_tags_of_chain(KEY) == f"perago-settled-wf-{chain}-"
    task = short_hash("wf", "mix", "0")
    assert attempt_marks_of_task(SECOND) == f"perago-attempt-wf-{task}-"
    assert attempt_mark_tag(SECOND) == f"perago-attempt-wf-{task}-{short_hash('t1')}-20"


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        (attempt_mark_tag(SECOND), AttemptMark(short_hash("t1"), 20)),
        ("perago-attempt-wf-a-b-0", AttemptMark("b", 0)),
        ("perago-attempt-w-f-a-b-0", AttemptMark("b", 0)),
        ("perago-attempt-wf-a-b-", None),
        ("perago-attempt-wf-a-b-x", None),
        ("perago-attempt-wf-a-b-²", None),
        ("perago-attempt-a-b-1", None),
        ("perago-settled-a-1", None),
        ("other-a-1", None),
        ("a-b-1", None),
        ("", None),
    ],
    ids=["ours", "zero", "hyphens in the workflow", "no time", "no number",
         "a digit that is no number", "too few parts", "a decision", "another tag", "no prefix",
         "empty"],
)  # fmt: skip
def test_a_mark_is_read_back_from_its_tag(tag: str, found: AttemptMark | None) -> None:
    assert parse_attempt_mark(TagName(tag)) == found


def test_hashed_parts_cannot_run_together() -> None:
    assert short_hash("ab", "c") != short_hash("a", "bc")
    assert short_hash("1:a", "b") != short_hash("1", "a1:b")
    assert short_hash("a") != short_hash("a", "")
    assert len(short_hash("a")) == 32


def test_names_never_change_between_versions() -> None:
    """Another spelling would make every decision of a running workflow invisible."""
    assert short_hash("a", "bc") == "5310a58788781ab25d5ad7c3f8503582"
    assert KEY == "wf-261e12798e26f6332467a7d9cb74d6b6-84d5a4a4e25b5c5e37b2189445f265a3"


def test_names_are_legal_tags_whatever_the_ids_hold() -> None:
    wild = replace(SECOND, workflow_id="wf/ä b", task_id="t 1", reference_name="mix__2/..")
    key = execution_key(wild, Epoch("t 1", 1), PLACE, "a/b c")
    for name in (decision_tag(key), attempt_mark_tag(wild)):
        assert name.replace("-", "").isalnum()
        assert name.isascii()
        assert len(name) < 160


@pytest.mark.parametrize(
    ("workflow_id", "segment"),
    [
        ("8f0d2b1c-53f5-4d68-9b0f-3f4f4a8f2a11", "8f0d2b1c-53f5-4d68-9b0f-3f4f4a8f2a11"),
        ("nightly_7", "nightly_7"),
        ("w" * 64, "w" * 64),
        ("w" * 65, short_hash("w" * 65)),
        ("wf/ä b", short_hash("wf/ä b")),
        ("", short_hash("")),
    ],
    ids=["a UUID", "legal", "longest", "too long", "illegal", "empty"],
)
def test_a_tag_tells_its_workflow_without_a_read(workflow_id: str, segment: str) -> None:
    attempt = replace(SECOND, workflow_id=workflow_id)
    key = execution_key(attempt, EPOCH, PLACE, "mix")
    assert workflow_segment(workflow_id) == segment
    assert workflow_of_tag(decision_tag(key)) == segment
    assert workflow_of_tag(attempt_mark_tag(attempt)) == segment


@pytest.mark.parametrize(
    "tag",
    ["perago-settled-a-b", "perago-settled--a-b", "perago-attempt-a-b-1", "other-wf-a-b", ""],
    ids=["too few parts", "no workflow", "a mark with too few", "another tag", "empty"],
)
def test_other_tags_tell_no_workflow(tag: str) -> None:
    assert workflow_of_tag(TagName(tag)) is None
