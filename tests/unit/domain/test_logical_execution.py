"""The key K: equal for all retries of one scheduled task, different for whatever a user starts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perago.domain.attempt import AttemptSnapshot, AttemptStatus
from perago.domain.lakefs import (
    BranchName,
    CommitId,
    CommitRecord,
    RepositoryId,
    TagName,
    WorkspaceReference,
)
from perago.domain.logical_execution import (
    AttemptMark,
    ExecutionInput,
    LogicalExecutionKey,
    Unsealed,
    attempt_mark_tag,
    attempt_marks_of_task,
    chain_hash,
    decision_key,
    decision_tag,
    decision_tags_of_chain,
    execution_key,
    find_epoch,
    key_on_input,
    mark_of,
    parse_attempt_mark,
    retry_chain,
    workflow_of_tag,
)
from perago.domain.names import short_hash, workflow_segment

PLACE = WorkspaceReference(RepositoryId("songs"), BranchName("main"), CommitId("A"))
A, B, PARENT = CommitId("A"), CommitId("B"), CommitId("before")
INPUT = CommitRecord(A, (PARENT,))
GIVEN = ExecutionInput(PLACE, "mix", {"knob": 0})


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


def rerun(attempt: AttemptSnapshot, *, at: int) -> AttemptSnapshot:
    """What a user's rerun does to a row, as seen on the real server."""
    return replace(attempt, scheduled_time=at)


RERUN = rerun(SECOND, at=50)


@pytest.mark.parametrize(
    ("chain", "marks", "found"),
    [
        ([FIRST], {}, FIRST),
        ([rerun(FIRST, at=50)], {}, rerun(FIRST, at=50)),
        ([SECOND], {}, SECOND),
        ([SECOND, FIRST], {}, Unsealed(FIRST, A)),
        ([SECOND, FIRST], {FIRST: B}, Unsealed(SECOND, B)),
        ([SECOND, FIRST], {FIRST: B, SECOND: B}, FIRST),
        ([SECOND, FIRST], {FIRST: B, SECOND: A}, SECOND),
        ([RERUN, FIRST], {FIRST: B, SECOND: B}, Unsealed(RERUN, A)),
        ([RERUN, FIRST], {FIRST: A, SECOND: A}, Unsealed(RERUN, PARENT)),
        ([RERUN, FIRST], {FIRST: A, SECOND: A, RERUN: PARENT}, RERUN),
        ([RERUN, FIRST], {FIRST: A, RERUN: A, SECOND: A}, FIRST),
        ([THIRD, SECOND, FIRST], {FIRST: A, THIRD: A}, Unsealed(SECOND, A)),
        ([THIRD, RERUN, FIRST], {FIRST: A, SECOND: A, THIRD: A}, Unsealed(RERUN, PARENT)),
        ([THIRD, RERUN, FIRST], {FIRST: A, THIRD: A, RERUN: B}, RERUN),
        ([SECOND, FIRST], {FIRST: A, row("t7", at=5): A}, Unsealed(SECOND, A)),
        ([SECOND, FIRST], {FIRST: A, row("t1", at=21): A}, Unsealed(SECOND, A)),
    ],
    ids=[
        "a first attempt",
        "a rerun of the first attempt",
        "a retry whose first row is gone",
        "the mark of the first row comes first",
        "a retry stands where the first row's mark stands",
        "a sealed retry",
        "a retry that was sealed as rerun",
        "a rerun stands elsewhere",
        "a rerun on the same input stands on its parent",
        "a sealed rerun",
        "a mark that landed after the rerun was sealed",
        "the row between was never handed out",
        "the rerun row between was never handed out",
        "a retry of a rerun",
        "another row's mark",
        "a mark that is not older",
    ],
)
def test_the_epoch(
    chain: Sequence[AttemptSnapshot],
    marks: dict[AttemptSnapshot, CommitId],
    found: AttemptSnapshot | Unsealed,
) -> None:
    named = {mark_of(row): commit for row, commit in marks.items()}
    assert find_epoch(chain, named, INPUT) == found


def test_where_the_input_has_no_parent_a_rerun_counts_as_a_retry() -> None:
    marks = {mark_of(FIRST): A, mark_of(SECOND): A}
    assert find_epoch([RERUN, FIRST], marks, CommitRecord(A, ())) == Unsealed(RERUN, A)


def test_the_chain_goes_from_mine_to_the_first() -> None:
    other = row("z", at=1)
    assert retry_chain(THIRD, [other, FIRST, SECOND, THIRD]) == (THIRD, SECOND, FIRST)


def test_a_chain_that_bites_its_tail_ends() -> None:
    tail = row("t0", at=10, retries="t1")
    assert retry_chain(SECOND, [tail, SECOND]) == (SECOND, tail)


def test_thousands_of_retries_count_from_the_same_attempt() -> None:
    rows = [FIRST]
    for number in range(1, 3000):
        rows.append(row(f"r{number}", at=10 + number, retries=rows[-1].task_id, count=number))
    chain = retry_chain(rows[-1], rows)
    assert find_epoch(chain, dict.fromkeys(map(mark_of, chain), A), INPUT) == FIRST


@dataclass
class Server:
    """One task as Conductor keeps it, and its marks.

    Users and time-outs change rows; a mark that was sent may land at any later time.
    """

    rows: list[AttemptSnapshot] = field(default_factory=lambda: [row("t0", at=1)])
    marks: dict[AttemptMark, CommitId] = field(default_factory=dict[AttemptMark, CommitId])
    on_the_wire: list[AttemptMark] = field(default_factory=list[AttemptMark])
    time: int = 1
    started_by_user: int = 0
    seen: dict[LogicalExecutionKey, int] = field(default_factory=dict[LogicalExecutionKey, int])

    def work(self) -> None:
        """The newest attempt is dispatched: it seals its chain and learns its key."""
        mine = self.rows[-1]
        chain = retry_chain(mine, self.rows)
        found = find_epoch(chain, self.marks, INPUT)
        while isinstance(found, Unsealed):
            self.marks.setdefault(mark_of(found.row), found.commit)
            found = find_epoch(chain, self.marks, INPUT)
        key = execution_key(mine, chain_hash(mine, found, self.marks), GIVEN)
        assert self.seen.setdefault(key, self.started_by_user) == self.started_by_user
        same = [other for other, user in self.seen.items() if user == self.started_by_user]
        assert same == [key]

    def die(self) -> None:
        """The newest attempt is dispatched and stands still with its mark on the wire."""
        self.on_the_wire.append(mark_of(self.rows[-1]))

    def land(self) -> None:
        """What is on the wire arrives; only a taken name refuses it."""
        for mark in self.on_the_wire:
            self.marks.setdefault(mark, A)
        self.on_the_wire = []

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


@given(st.lists(st.sampled_from(["work", "retry", "die", "land", *range(4)]), max_size=14))
@example(["retry", "die", 1, "work", "land", "retry", "work"])
def test_a_mark_that_lands_late_splits_no_chain(events: list[str | int]) -> None:
    """A rerun of a row that only died on the way may count as a retry, but its retries agree."""
    server = Server()
    keys: dict[int, set[LogicalExecutionKey]] = {}
    for event in events:
        if isinstance(event, int):
            server.rerun(event)
        elif event != "work":
            getattr(server, event)()
        else:
            server.seen = {}
            server.work()
            keys.setdefault(server.started_by_user, set()).update(server.seen)
    assert all(len(found) == 1 for found in keys.values())


CHAIN = chain_hash(FIRST, FIRST)
KEY = execution_key(FIRST, CHAIN, GIVEN)


def key_of(attempt: AttemptSnapshot, epoch: AttemptSnapshot = FIRST) -> LogicalExecutionKey:
    return execution_key(attempt, chain_hash(attempt, epoch), GIVEN)


def key_on(
    place: WorkspaceReference = PLACE, prefix: str = "mix", params: object = None
) -> LogicalExecutionKey:
    given = ExecutionInput(place, prefix, {"knob": 0} if params is None else params)
    return execution_key(FIRST, CHAIN, given)


@pytest.mark.parametrize(
    "other",
    [
        key_of(replace(FIRST, workflow_id="wf2")),
        key_of(replace(FIRST, reference_name="cut")),
        key_of(replace(FIRST, iteration=1)),
        key_of(FIRST, row("t1", at=10)),
        key_of(FIRST, row("t0", at=11)),
        key_on(replace(PLACE, repository=RepositoryId("films"))),
        key_on(replace(PLACE, branch=BranchName("dev"))),
        key_on(replace(PLACE, ref=CommitId("B"))),
        key_on(prefix="/"),
        key_on(params={"knob": 7}),
        key_on(params={"knob": "0"}),
        key_on(params={"knob": 0, "more": None}),
        key_on(params={}),
    ],
    ids=["workflow", "reference", "iteration", "epoch task", "epoch time", "repository", "branch",
         "input", "prefix", "a param", "a param's type", "a param that is null", "no params"],
)  # fmt: skip
def test_the_key_differs_by(other: LogicalExecutionKey) -> None:
    assert other != KEY


@pytest.mark.parametrize(
    "same",
    [
        key_of(replace(FIRST, task_id="t7", retry_count=7)),
        key_of(replace(FIRST, seq=9)),
        key_of(replace(FIRST, poll_count=2, start_time=99, worker_id="w")),
        key_of(replace(FIRST, status=AttemptStatus.SCHEDULED, scheduled_time=77)),
        key_of(replace(FIRST, retried=True, retried_task_id="t0", task_type="renamed")),
    ],
    ids=["retry", "seq", "redelivery", "requeue", "row facts"],
)
def test_the_key_does_not_differ_by(same: LogicalExecutionKey) -> None:
    assert same == KEY


JSON = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
FIELDS = st.dictionaries(st.text(), st.dictionaries(st.text(), JSON | st.lists(JSON)))


@given(FIELDS)
def test_the_order_of_fields_does_not_change_the_key(
    params: dict[str, dict[str, object]],
) -> None:
    turned = {name: dict(reversed(params[name].items())) for name in reversed(params)}
    assert key_on(params=json.loads(json.dumps(turned))) == key_on(params=params)


def test_changed_inputs_of_one_chain_share_the_prefix_of_their_decisions() -> None:
    elsewhere = ExecutionInput(replace(PLACE, ref=CommitId("B")), "mix", {"knob": 7})
    moved = execution_key(FIRST, CHAIN, elsewhere)
    rerun_later = key_of(FIRST, row("t0", at=11))
    prefix = decision_tags_of_chain(KEY)
    assert decision_tag(KEY).startswith(prefix)
    assert decision_tag(moved).startswith(prefix)
    assert not decision_tag(rerun_later).startswith(prefix)
    assert key_on_input(KEY, elsewhere) == moved
    assert decision_key(decision_tag(moved)) == moved


def test_every_reset_of_a_chain_leads_to_another_one() -> None:
    marks = {AttemptMark(short_hash("t1"), 20)}
    assert chain_hash(FIRST, FIRST, marks) == CHAIN
    chains = [CHAIN]
    for time in range(3):
        left = parse_attempt_mark(attempt_mark_tag(FIRST, AttemptMark(chains[-1], time)))
        assert left is not None
        marks.add(left)
        chains.append(chain_hash(FIRST, FIRST, marks))
    assert len(set(chains)) == 4


def test_names_are_as_the_specification_writes_them() -> None:
    chain = chain_hash(FIRST, FIRST)
    place = short_hash("songs", "main", "mix", "A", '{"knob":0}')
    assert chain == short_hash("wf", "mix", "0", "t0", "10")
    assert f"wf-{chain}-{place}" == KEY
    assert decision_tag(KEY) == f"perago-settled-{KEY}"
    assert decision_tags_of_chain(KEY) == f"perago-settled-wf-{chain}-"
    task = short_hash("wf", "mix", "0")
    assert attempt_marks_of_task(SECOND) == f"perago-attempt-wf-{task}-"
    assert attempt_mark_tag(SECOND) == f"perago-attempt-wf-{task}-{short_hash('t1')}-20"
    assert (
        attempt_mark_tag(SECOND, AttemptMark(chain, 30)) == f"perago-attempt-wf-{task}-{chain}-30"
    )


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
    assert KEY == "wf-261e12798e26f6332467a7d9cb74d6b6-7f9273d8410d111d1b42fc39b42f7aad"


def test_names_are_legal_tags_whatever_the_ids_hold() -> None:
    wild = replace(SECOND, workflow_id="wf/ä b", task_id="t 1", reference_name="mix__2/..")
    key = execution_key(wild, chain_hash(wild, row("t 1", at=1)), GIVEN)
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
    key = execution_key(attempt, CHAIN, GIVEN)
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
