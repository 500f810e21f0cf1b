"""Watches one schedule and checks the invariants as soon as they can be broken.

Knows what the servers hold and who did what; it never acts, and asks nothing through a port.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.simulation.actors import Actor
from tests.simulation.invariants import Broken
from tests.simulation.scene import MAIN, Scene
from tests.simulation.steering import PortCall
from tests.simulation.workspace import BodyEnd

from perago.adapters.memory.conductor_rows import TaskRow
from perago.app.attempt.run_attempt import AttemptReport
from perago.domain.attempt import AttemptRecord, AttemptStatus
from perago.domain.commit_metadata import EXPECTED_HEAD, PREFIX, STAGING_BRANCH, STAGING_COMMIT
from perago.domain.errors import PeragoError
from perago.domain.logical_execution import DECISION_TAG_PREFIX
from perago.domain.outcome import Merged, Relocated
from perago.domain.references import CommitId, CommitRecord
from perago.ports.errors import WorldError

STEPS_MAX = 3000
Dispatched = tuple[str, int]  # task id and scheduled time: a rerun of a row is another one


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the team's function."""

    execution: int
    knob: object
    input: CommitId
    writes: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """An output that Conductor took for a row."""

    execution: int
    reference: str
    ref: CommitId
    run: str


@dataclass(slots=True)
class Monitor:
    """What is known of a schedule so far."""

    scene: Scene
    seen: set[str]
    executions: dict[Dispatched, int] = field(default_factory=dict[Dispatched, int])
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    accepted: dict[Dispatched, Accepted] = field(default_factory=dict[Dispatched, Accepted])
    publications: list[CommitRecord] = field(default_factory=list[CommitRecord])
    foreign: list[CommitId] = field(default_factory=list[CommitId])
    handed_over: dict[str, int] = field(default_factory=dict[str, int])
    _dispatch: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    _resets: int = 0
    _head: CommitId | None = None
    _rewritten: bool = False

    def polled(self, actor: Actor, step: int) -> None:
        """A process took a row: which execution does it belong to?"""
        assert actor.record is not None, "just polled"
        row = actor.record.snapshot
        dispatched = row.task_id, row.scheduled_time
        if row.poll_count > 1:
            self.seen.add("a row was handed out twice")
        if row.retry_count:
            self.seen.add("a retry was polled")
        self._execution_of(dispatched, row.retried_task_id)
        self._hand_over(row.task_id, row.poll_count, row.scheduled_time, step)

    def was_rerun(self, task_id: str) -> None:
        """An operator reran a row: it begins a new execution.

        Except where no process ever held the row: nothing on lakeFS tells then that it was rerun,
        and it resumes the decision of the attempt before it. Documented.
        """
        row = self.scene.conductor.state.row(task_id)
        was_held = any(known == task_id for known, _ in self.executions)
        if was_held or row.retried_task_id is None:
            self.executions[task_id, row.scheduled_time] = self._new_execution()

    def was_reset(self) -> None:
        """An operator asked for a recomputation: what was published before is not counted."""
        self._resets += 1
        self.publications.clear()

    def body_ran(self, actor: Actor, end: BodyEnd) -> None:
        """A function ran to its end."""
        assert actor.record is not None, "only attempts run functions"
        given = actor.record.input_data
        execution = self._execution_of_record(actor.record)
        ref = _input_ref(given)
        self.runs[end.run] = Run(execution, _knob(given), ref, end.writes)

    def before(self, actor: Actor, call: PortCall) -> None:
        """A request is about to take effect."""
        if call.operation == "branches.delete" and actor.name.startswith("gc"):
            self._decided_branches = self._branches_of_decisions()
        elif call.operation == "queue.complete":
            self._was_open = self._row_of(actor) is not None

    _was_open: bool = False
    _unclosable: set[Dispatched] = field(default_factory=set[Dispatched])
    _decided_branches: dict[str, str] = field(default_factory=dict[str, str])

    def after(self, actor: Actor, call: PortCall, result: object, step: int) -> None:
        """A request took effect, also a late one."""
        match call.operation:
            case "branches.merge" if isinstance(result, Merged):
                self._merged(result.commit)
            case "branches.relocate" if isinstance(result, Relocated):
                self.seen.add("a branch was relocated")
                self._check_history()
            case "queue.complete":
                self._row_may_have_ended(actor, call)
                self.rows_may_have_changed(step)
            case "branches.delete" if actor.name.startswith("gc"):
                self._branch_removed()
            case _:
                pass

    def rows_may_have_changed(self, step: int) -> None:
        """Something was written to Conductor: look at every row."""
        for row in self._rows():
            self._hand_over(row.task_id, row.poll_count, row.scheduled_time, step)
            if row.status is AttemptStatus.COMPLETED:
                self._accept(row)

    def others_committed(self, commit: CommitId) -> None:
        """Something that is not Perago moved the target."""
        self.foreign.append(commit)

    def attempt_ended(self, actor: Actor, report: AttemptReport) -> None:
        """An attempt came to its end; whatever ended it has a code."""
        error = report.error
        if error is None:
            return
        self.seen.add(f"an attempt ended with {getattr(error, 'code', type(error).__name__)}")
        if not isinstance(error, PeragoError | WorldError):
            self._broken(8, f"{actor.name} failed with {error!r}")

    def must_end(self, steps: int) -> None:
        """A schedule has bounded faults and bounded attempts, so it has bounded steps."""
        if steps > STEPS_MAX:
            self._broken(11, f"it does not end within {STEPS_MAX} steps")

    def ended(self) -> None:
        """Nothing is left to do."""
        self.rows_may_have_changed(0)
        self._check_history()
        self._check_decisions()

    def row_in_words(self, record: AttemptRecord) -> str:
        """A row for the story."""
        row = record.snapshot
        execution = self._execution_of_record(record)
        ref = _input_ref(record.input_data)
        return (
            f"{row.reference_name} retry {row.retry_count} poll {row.poll_count} "
            f"task {row.task_id[:4]} input {ref[:8]} knob {_knob(record.input_data)} "
            f"[execution {execution}]"
        )

    def _merged(self, commit: CommitId) -> None:
        repository = self.scene.repository
        if repository.head(MAIN).commit != commit:
            return  # a scratch branch
        record = repository.head(MAIN)
        self.publications.append(record)
        if self.scene.mix.fenced and record.parents != (record.metadata.get(EXPECTED_HEAD),):
            self._broken(12, f"{commit[:8]} stands on {record.parents}")
        self._check_prefix(record)
        execution = self._execution_of_publication(record)
        mine = [
            each for each in self.publications if execution == self._execution_of_publication(each)
        ]
        if execution and len(mine) > 1:
            what = ", ".join(f"{each.commit[:8]}" for each in mine)
            self._broken(4, f"execution {execution} published {what}")
        for accepted in self.accepted.values():
            if accepted.execution == execution and accepted.ref != commit:
                self._broken(3, f"{commit[:8]} landed after {accepted.ref[:8]} was accepted")

    def _check_prefix(self, record: CommitRecord) -> None:
        state = self.scene.lakefs.repository(self.scene.repository.id)
        prefix = f"{record.metadata.get(PREFIX, '')}/"
        now, before = (
            dict(state.commit_of(ref).tree.items()) for ref in (record.commit, record.parents[0])
        )
        for path in now.keys() | before.keys():
            same = path in now and path in before and now[path].identity == before[path].identity
            if not same and not path.startswith(prefix):
                self._broken(9, f"{record.commit[:8]} changed {path}")

    def _accept(self, row: TaskRow) -> None:
        dispatched = row.task_id, row.scheduled_time
        if dispatched in self.accepted or row.task_type == "look":
            return
        output = row.output_data
        workspace, result = output.get("workspace"), output.get("result")
        assert isinstance(workspace, dict), output
        assert isinstance(result, dict), output
        execution = self._execution_of(dispatched, row.retried_task_id)
        run = str(result["run"])
        accepted = Accepted(execution, row.reference_name, CommitId(str(workspace["ref"])), run)
        self.accepted[dispatched] = accepted
        self.seen.add("an output was accepted")
        self._check_accepted(row, accepted, result.get("knob"))

    def _check_accepted(self, row: TaskRow, accepted: Accepted, knob: object) -> None:
        run = self.runs[accepted.run]
        self._check_history()
        self._check_tree(accepted, run)
        if (row.task_id, row.scheduled_time) in self._unclosable:
            return
        who = f"{row.reference_name} ended with {accepted.run}"
        if run.execution != accepted.execution:
            self._broken(
                10, f"{who} of execution {run.execution}, it is execution {accepted.execution}"
            )
        if run.knob != _knob(row.input_data) or knob != run.knob:
            self._broken(6, f"{who}, knob {run.knob}; the row has {_knob(row.input_data)}")
        others = [
            each.commit
            for each in self.publications
            if each.commit != accepted.ref
            and self._execution_of_publication(each) == accepted.execution
        ]
        if others:
            self._broken(3, f"{who} as {accepted.ref[:8]}, but {others[0][:8]} is visible")

    def _check_tree(self, accepted: Accepted, run: Run) -> None:
        """The accepted commit shows exactly what its run wrote."""
        if not run.writes:
            ref = _own_input(self.scene, accepted.ref, run.input)
            if accepted.ref != ref:
                self._broken(5, f"{accepted.run} wrote nothing, its output is {accepted.ref[:8]}")
            return
        files = self.scene.repository.files(accepted.ref)
        parent = self.scene.repository.files(f"{accepted.ref}~1")
        wrote = {path for path in files if files[path] != parent.get(path)}
        prefix = next((path.partition("/")[0] for path in wrote), "nothing")
        expected = {f"{prefix}/out.txt", f"{prefix}/only-{accepted.run}.txt"}
        if wrote != expected or files[f"{prefix}/out.txt"] != accepted.run.encode():
            self._broken(5, f"{accepted.run} is accepted with {sorted(wrote)}")

    def _row_may_have_ended(self, actor: Actor, call: PortCall) -> None:
        """Did this update end a row that is no longer its sender's?

        Between the last question of an attempt and its end the row may change hands: nothing can
        close that one step. An attempt that asked later must know, except one that is younger than
        a second.
        """
        assert actor.record is not None, "only attempts end rows"
        sent = actor.record.snapshot
        row = self.scene.conductor.state.find_row(sent.task_id)
        if not self._was_open or row is None or not row.status.is_terminal:
            return
        if (row.poll_count, row.scheduled_time) == (sent.poll_count, sent.scheduled_time):
            return
        young = self.scene.clock.monotonic() - actor.began < 1.0
        if not young and call.after > self.handed_over.get(row.task_id, 0):
            self._broken(13, f"{actor.name} sent {row.status} for a row that was handed on")
        self.seen.add("an end met a row that changed hands after the last look")
        self._unclosable.add((row.task_id, row.scheduled_time))

    def _row_of(self, actor: Actor) -> TaskRow | None:
        """The row of an attempt, while it is open."""
        assert actor.record is not None, "only attempts have rows"
        row = self.scene.conductor.state.find_row(actor.record.snapshot.task_id)
        return None if row is None or row.status.is_terminal else row

    def _branch_removed(self) -> None:
        left = self._branches_of_decisions()
        names = self.scene.repository.branch_names()
        for branch in left:
            if self._decided_branches.get(branch) == "there" and branch not in names:
                self._broken(7, f"the branch {branch[-24:]} is gone, its decision is not")

    def _branches_of_decisions(self) -> dict[str, str]:
        """The branch that each decision names, and whether it is there."""
        repository = self.scene.lakefs.repository(self.scene.repository.id)
        found: dict[str, str] = {}
        for tag, commit in repository.tags.items():
            if tag.startswith(DECISION_TAG_PREFIX):
                branch = repository.graph[commit].record.metadata.get(STAGING_BRANCH, "")
                found[branch] = "there" if branch in repository.branches else "gone"
        return found

    def _check_decisions(self) -> None:
        """Every decision that may still be published has its branch."""
        repository = self.scene.lakefs.repository(self.scene.repository.id)
        published = {each.metadata.get(STAGING_COMMIT) for each in self.publications}
        for tag, commit in repository.tags.items():
            if not tag.startswith(DECISION_TAG_PREFIX) or commit in published:
                continue
            record = repository.graph[commit].record
            branch = record.metadata.get(STAGING_BRANCH, "")
            done = any(each.run in str(record.metadata) for each in self.accepted.values())
            if branch not in repository.branches and not done:
                self._broken(14, f"{tag} has no branch {branch[-24:]}")

    def _check_history(self) -> None:
        history = {record.commit for record in self.scene.repository.history(MAIN)}
        for accepted in self.accepted.values():
            if accepted.ref not in history:
                self._broken(1, f"{accepted.ref[:8]} of {accepted.reference} is gone")
        for commit in self.foreign:
            if commit not in history:
                self._broken(2, f"{commit[:8]} is gone")

    def _hand_over(self, task_id: str, polls: int, scheduled: int, step: int) -> None:
        if self._dispatch.get(task_id) != (polls, scheduled):
            self._dispatch[task_id] = polls, scheduled
            self.handed_over[task_id] = step

    def _execution_of_record(self, record: AttemptRecord) -> int:
        row = record.snapshot
        return self._execution_of((row.task_id, row.scheduled_time), row.retried_task_id)

    def _execution_of(self, dispatched: Dispatched, retried: str | None) -> int:
        """The execution of a row: that of the row it retries, or a new one."""
        if dispatched not in self.executions:
            before = None if retried is None else self.scene.conductor.state.find_row(retried)
            if before is None:
                self.executions[dispatched] = self._new_execution()
            else:
                earlier = before.task_id, before.scheduled_time
                self.executions[dispatched] = self._execution_of(earlier, before.retried_task_id)
        return self.executions[dispatched]

    def _new_execution(self) -> int:
        self._count += 1
        return self._count

    _count: int = 0

    def _execution_of_publication(self, record: CommitRecord) -> int:
        """Whose it is: the run that wrote it says so in its tree."""
        if "execution" not in self._cache(record.commit):
            files = self.scene.repository.files(record.commit)
            parent = self.scene.repository.files(record.parents[0])
            for path in files.keys() - parent.keys():
                run = path.rpartition("/only-")[2].removesuffix(".txt")
                if run in self.runs:
                    self._cache(record.commit)["execution"] = self.runs[run].execution
        return self._cache(record.commit).get("execution", 0)

    _known: dict[CommitId, dict[str, int]] = field(default_factory=dict[CommitId, dict[str, int]])

    def _cache(self, commit: CommitId) -> dict[str, int]:
        return self._known.setdefault(commit, {})

    def _rows(self) -> Sequence[TaskRow]:
        run = self.scene.conductor.state.runs[self.scene.workflow]
        return [row for row in run.rows.values() if row.is_queued_type]

    def _broken(self, number: int, what: str) -> None:
        if number not in self.scene.mix.without:
            raise Broken(number, what)


def _knob(given: object) -> object:
    assert isinstance(given, dict), given
    params = given.get("params")
    return params.get("knob") if isinstance(params, dict) else None


def _input_ref(given: object) -> CommitId:
    assert isinstance(given, dict), given
    workspace = given.get("workspace")
    return CommitId(str(workspace.get("ref")) if isinstance(workspace, dict) else "")


def _own_input(scene: Scene, ref: CommitId, given: CommitId) -> CommitId:
    """A no-op keeps its input; on a prefix of its own that is any commit with the same prefix."""
    del scene, ref
    return given
