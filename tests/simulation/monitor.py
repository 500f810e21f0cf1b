"""Watches one schedule and checks the invariants as soon as they can be broken.

Sees what the servers hold and who did what; it never acts, and asks nothing through a port.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError
from tests.simulation import old_version
from tests.simulation.actors import Actor
from tests.simulation.facts import Dispatched, Facts, Run, input_ref, knob_of
from tests.simulation.invariants import broken
from tests.simulation.mix import Kind
from tests.simulation.removals import Removals
from tests.simulation.runs import Runs
from tests.simulation.scene import BEGIN, FINISH, JOIN, MAIN, Scene
from tests.simulation.steering import PortCall
from tests.simulation.workspace import BodyEnd

from perago.adapters.memory.conductor_rows import TaskRow
from perago.app.attempt.run_attempt import AttemptReport
from perago.app.authoring.failure import error_code
from perago.domain.attempt import AttemptStatus, WorkflowStatus, as_mapping
from perago.domain.commit_metadata import (
    EXPECTED_HEAD,
    INPUT_REF,
    LOGICAL_EXECUTION_KEY,
    POLICY,
    PREFIX,
    STAGING_COMMIT,
)
from perago.domain.errors import PeragoError, PublishFenceError
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, TagName
from perago.domain.names import DECISION_TAG_PREFIX
from perago.domain.outcome import Merged, Relocated
from perago.ports.errors import ServiceError

STEPS_MAX = 3000
ENDS = frozenset({"queue.complete", "queue.hand_back"})
PREFIX_OF_OLD_WORKERS = old_version.PREFIX  # their commits do not say it


@dataclass(frozen=True, slots=True)
class Accepted:
    """An output that Conductor took for a row."""

    execution: int
    reference: str
    ref: CommitId
    branch: BranchName
    run: str
    by_another: bool
    """The end of an attempt that had held the row before, on its way since before it changed hands.

    Conductor compares nothing, so nobody can withhold it: docs/guarantees.md, invariants 3 and 10.
    """


@dataclass(slots=True)
class Monitor:
    """What happened so far that an invariant may need."""

    scene: Scene
    seen: set[str]
    facts: Facts
    removals: Removals
    runs: Runs
    accepted: dict[Dispatched, Accepted] = field(default_factory=dict[Dispatched, Accepted])
    publications: list[CommitRecord] = field(default_factory=list[CommitRecord])
    branch_of: dict[CommitId, BranchName] = field(default_factory=dict[CommitId, BranchName])
    counted_from: int = 0
    foreign: list[CommitId] = field(default_factory=list[CommitId])
    _decided: set[tuple[int, CommitId, object]] = field(
        default_factory=set[tuple[int, CommitId, object]]
    )
    _was_open: bool = False
    _retries_before: Mapping[str, int] = field(default_factory=dict[str, int])
    _back_in_the_queue: set[str] = field(default_factory=set[str])
    _unclosable: set[Dispatched] = field(default_factory=set[Dispatched])
    _gave_up: bool = False

    def polled(self, actor: Actor, step: int) -> None:
        """A process took a row."""
        assert actor.record is not None, "just polled"
        row = actor.record.snapshot
        if row.poll_count > 1:
            self.seen.add("a row was handed out twice")
        if row.retry_count:
            self.seen.add("a retry was polled")
        self.facts.look(step)
        actor.decided_before = self.facts.decision_of(actor.record) in self._decided

    def was_reset(self) -> None:
        """An operator asked for a recomputation: what was published before is not counted."""
        self.counted_from = len(self.publications)

    def body_ran(self, actor: Actor, end: BodyEnd) -> None:
        """A function ran to its end."""
        assert actor.record is not None, "only attempts run functions"
        given = actor.record.input_data
        execution = self.facts.execution_of(actor.record)
        if actor.decided_before and not actor.old:
            self._broken(15, f"{actor.name} runs it, execution {execution} is decided")
        self._gave_up = self._gave_up or end.terminal
        if end.drained:
            self.seen.add("a function was drained")
        self.facts.runs[end.run] = Run(execution, knob_of(given), input_ref(given), end.writes)

    def before(self, actor: Actor, call: PortCall) -> None:
        """A request is about to take effect."""
        if call.operation in {"branches.delete", "tags.delete"}:
            self.removals.before()
        elif call.operation in ENDS:
            self._was_open = self._open_row(actor) is not None
            self._retries_before = self._retries_of(actor)

    def after(self, actor: Actor, call: PortCall, result: object, step: int) -> None:
        """A request took effect, also a late one."""
        match call.operation:
            case "branches.merge" if isinstance(result, Merged):
                self._merged(actor, call, result.commit)
            case "branches.create" if actor.purpose == BEGIN:
                self._began(actor, call)
            case "branches.relocate" if isinstance(result, Relocated):
                self.seen.add("a branch was relocated")
                self._moved(actor, call)
                self._check_history()
            case operation if operation in ENDS:
                self._row_may_have_ended(actor, call)
                self._row_may_be_back(actor, call)
                self.rows_may_have_changed(step)
            case "branches.delete":
                self.removals.after(actor, step, late=call.late)
            case "tags.create":
                self._tag_created(actor, step, late=call.late)
            case "tags.delete":
                self.removals.after(actor, step, late=call.late)
                self._forget_decisions()
            case _:
                pass

    def _merged(self, actor: Actor, call: PortCall, commit: CommitId) -> None:
        """A branch that others see has moved; a scratch branch or a canary is none."""
        branch = self.scene.public_branch_at(commit)
        if branch is None:
            return
        self._moved(actor, call)
        record = self.scene.repository.head(branch)
        if actor.purpose == FINISH and branch == MAIN:
            self.runs.finish_published(actor, record)
        else:
            self.branch_of[commit] = branch
            self._check_publication(actor, record)
            if not self.runs.landed_too_late(branch, call):
                self._count(record)
            assert actor.record is not None, "only attempts publish"
            told = as_mapping(actor.record.input_data.get("workspace"))["branch"]
            if branch == MAIN == told:
                self.runs.direct.add(commit)
        self.runs.target_moved(self.foreign)

    def _began(self, actor: Actor, call: PortCall) -> None:
        """Begin asked for a run branch: it was not stale when it last asked anything else."""
        assert actor.record is not None, "only attempts begin"
        counts = actor.stale_since is None
        if self.runs.began(actor.record, counts=counts) and actor.stale_since is not None:
            self.seen.add("a stale attempt created a run branch in its last step")
            if call.after > actor.stale_since:
                self._broken(30, f"{actor.name} is stale since before it last asked")

    def _row_may_be_back(self, actor: Actor, call: PortCall) -> None:
        """A row that was handed back has its retry count, and no retry of it was made."""
        if call.operation != "queue.hand_back":
            return
        assert actor.record is not None, "only attempts hand rows back"
        self._back_in_the_queue.add(actor.record.snapshot.task_id)
        # A racy Conductor lets an end that was under way land within this step.
        if self._retries_of(actor) != self._retries_before and not self.scene.mix.racy:
            self._broken(21, f"{actor.name} handed a row back, its retries are now others")

    def _retries_of(self, actor: Actor) -> Mapping[str, int]:
        """The row of an attempt and its retries, each with its retry count."""
        assert actor.record is not None, "only attempts have rows"
        mine = actor.record.snapshot.task_id
        rows = [row for row in self.facts.rows() if mine in {row.task_id, row.retried_task_id}]
        return {row.task_id: row.retry_count for row in rows}

    def _forget_decisions(self) -> None:
        """One may be gone: nothing is known of them any more."""
        self._decided.clear()
        self.facts.marks_may_be_gone()
        self.removals.forget_gone()
        for each in self.facts.actors:
            each.decided_before = False

    def _reset_may_have_landed(self) -> None:
        """Whoever works on the task computes anew from here on."""
        self.facts.resets_may_have_landed()
        for each in self.facts.actors:
            each.decided_before = False

    def rows_may_have_changed(self, step: int) -> None:
        """Something was written to Conductor: look at every row."""
        self.facts.look(step)
        for row in self.facts.rows():
            if row.status is AttemptStatus.COMPLETED:
                self._accept(row)

    def others_committed(self, commit: CommitId) -> None:
        """Something that is not Perago moved the target."""
        self.foreign.append(commit)
        self.runs.target_moved(self.foreign)

    def attempt_ended(self, actor: Actor, report: AttemptReport) -> None:
        """An attempt came to its end; whatever ended it has a code."""
        error = report.error
        if error is None:
            return
        self.seen.add(f"an attempt ended with {error_code(error)}")
        counts = actor.stale_since is None
        if self.scene.mix.completes and counts and isinstance(error, PublishFenceError):
            self._broken(11, f"{actor.name} was refused, and nothing else publishes: {error}")
        if not isinstance(error, PeragoError | ServiceError | ValidationError):
            self._broken(8, f"{actor.name} failed with {error!r}")

    def must_end(self, steps: int) -> None:
        """A schedule has bounded faults and bounded attempts, so it has bounded steps."""
        if steps > STEPS_MAX:
            self._broken(11, f"it does not end within {STEPS_MAX} steps")

    def ended(self, *, attempts_left: bool) -> None:
        """Nothing is left to do."""
        self.rows_may_have_changed(0)
        status = self.scene.workflow_status
        self.seen.add(f"the workflow ended {status}")
        if any(self.facts.is_open_for_good(row) for row in self.facts.rows()):
            self.seen.add("an attempt died with a row that a retry had made good")
            return
        if attempts_left and not status.is_terminal:
            self._broken(11, f"nothing is left to do and the workflow is {status}")
        failed = status is not WorkflowStatus.COMPLETED and not self._gave_up
        if attempts_left and self.scene.mix.completes and failed:
            self._broken(11, f"nothing kept the workflow from completing, it is {status}")
        self._check_history()
        published = {each.metadata.get(STAGING_COMMIT, "") for each in self.publications}
        self.removals.at_the_end(published, {each.execution for each in self.accepted.values()})

    def _moved(self, actor: Actor, call: PortCall) -> None:
        """The target moved: its mover was not stale when it last asked anything."""
        if call.waited and not actor.old:
            self._broken(22, f"{actor.name} has slept since it read its row")
        if actor.stale_since is not None:
            self.seen.add("a stale attempt moved the target in its last step")
            if call.after > actor.stale_since and not actor.old:
                self._broken(16, f"{actor.name} is stale since before it last asked")

    def _changed_nothing_for_other_params(self, accepted: Accepted, late: CommitRecord) -> bool:
        """A retry for other params changed nothing, so the head did not move for the first merge.

        docs/guarantees.md, retries on another input: the one case that is not covered.
        """
        kept, published = self.facts.runs.get(accepted.run), self.facts.run_of_publication(late)
        if kept is None or published is None or kept.writes or kept.knob == published.knob:
            return False
        self.seen.add("a merge landed after a retry for other params had changed nothing")
        return True

    def _check_publication(self, actor: Actor, record: CommitRecord) -> None:
        commit = record.commit
        fenced = self.scene.mix.fenced and not actor.old
        if fenced and record.parents != (record.metadata.get(EXPECTED_HEAD),):
            self._broken(12, f"{commit[:8]} stands on {record.parents}")
        if record.metadata.get(POLICY) == "settled":
            self._check_settled(record)
        self._check_prefix(record)

    def _counted(self, execution: int | None) -> Sequence[CommitRecord]:
        """What an execution has published; not on a run that was given up, which shows nothing."""
        return [
            each
            for each in self.publications[self.counted_from :]
            if execution == self.facts.execution_of_publication(each)
            and self.branch_of[each.commit] not in self.runs.given_up
        ]

    def _count(self, record: CommitRecord) -> None:
        """An execution has one publication, and no other once that is accepted."""
        commit = record.commit
        self.publications.append(record)
        execution = self.facts.execution_of_publication(record)
        mine = self._counted(execution)
        if execution and len(mine) > 1:
            what = ", ".join(f"{each.commit[:8]}" for each in mine)
            self._broken(4, f"execution {execution} published {what}")
        for accepted in self.accepted.values():
            if accepted.by_another:
                continue  # its holder had asked for the last time before that end landed
            if self._changed_nothing_for_other_params(accepted, record):
                continue
            if accepted.execution == execution and accepted.ref != commit:
                self._broken(3, f"{commit[:8]} landed after {accepted.ref[:8]} was accepted")

    def _check_settled(self, record: CommitRecord) -> None:
        """Under settled what is published stands on its input, and is what was decided."""
        on_input = record.parents == (record.metadata.get(INPUT_REF),)
        if self.scene.alone and not on_input:
            self._broken(12, f"{record.commit[:8]} does not stand on its input")
        often = self.scene.mix.often
        if Kind.GC in often or Kind.RESET in often:
            return  # the decision may be gone by now
        tags = self.scene.lakefs.repository(self.scene.repository.id).tags
        key = record.metadata.get(LOGICAL_EXECUTION_KEY, "")
        decided = tags.get(TagName(f"{DECISION_TAG_PREFIX}{key}"))
        if decided != record.metadata.get(STAGING_COMMIT):
            self._broken(17, f"{record.commit[:8]} is published, decided is {decided}")

    def _tag_created(self, actor: Actor, step: int, *, late: bool) -> None:
        if actor.record is None:
            self._reset_may_have_landed()
            return
        for tag in self.scene.lakefs.repository(self.scene.repository.id).tags:
            if tag.startswith(DECISION_TAG_PREFIX) and tag not in self.removals.decided_at:
                self.removals.decided(tag, actor, step, late=late)
                self._decided.add(self.facts.decision_of(actor.record))

    def _check_prefix(self, record: CommitRecord) -> None:
        state = self.scene.lakefs.repository(self.scene.repository.id)
        prefix = f"{record.metadata.get(PREFIX, PREFIX_OF_OLD_WORKERS)}/"
        now, before = (
            dict(state.graph[ref].tree.items()) for ref in (record.commit, record.parents[0])
        )
        for path in now.keys() | before.keys():
            same = path in now and path in before and now[path].identity == before[path].identity
            if not same and not path.startswith(prefix):
                self._broken(9, f"{record.commit[:8]} changed {path}")

    def _accept(self, row: TaskRow) -> None:
        dispatched = row.task_id, row.scheduled_time
        if dispatched in self.accepted:
            return
        if row.task_type in {BEGIN, FINISH, JOIN}:
            self.runs.accept(row, by_another=dispatched in self._unclosable)
            return
        output = row.output_data
        workspace, result = as_mapping(output.get("workspace")), as_mapping(output.get("result"))
        execution = self.facts.execution(dispatched, row.retried_task_id)
        run = str(result["run"])
        ref, by_another = CommitId(str(workspace["ref"])), dispatched in self._unclosable
        branch = BranchName(str(workspace["branch"]))
        accepted = Accepted(execution, row.reference_name, ref, branch, run, by_another)
        self.accepted[dispatched] = accepted
        self.seen.add("an output was accepted")
        if row.task_id in self._back_in_the_queue and row.task_type != "look":
            self.seen.add("a row was handed back and its redelivery published")
        self._check_history()
        if row.task_type != "look":
            self._check_tree(accepted)
        elif not by_another and accepted.ref != input_ref(row.input_data):
            self._broken(10, f"{row.reference_name} read {input_ref(row.input_data)[:8]}")
        if not by_another:
            self._check_result(row, accepted, result.get("knob"))

    def _check_result(self, row: TaskRow, accepted: Accepted, knob: object) -> None:
        run, execution = self.facts.runs[accepted.run], accepted.execution
        who = f"{row.reference_name} ended with {accepted.run}"
        if not self.facts.are_one(execution, run.execution):
            self._broken(10, f"{who} of execution {run.execution}, it is execution {execution}")
        if run.knob != knob_of(row.input_data) or knob != run.knob:
            self._broken(6, f"{who}, knob {run.knob}; the row has {knob_of(row.input_data)}")
        for each in self._counted(execution):
            if each.commit != accepted.ref:
                self._broken(3, f"{who} as {accepted.ref[:8]}, {each.commit[:8]} is visible")

    def _check_tree(self, accepted: Accepted) -> None:
        """The accepted commit shows exactly what its run wrote."""
        run = self.facts.runs[accepted.run]
        files = self.scene.repository.files(accepted.ref)
        if not run.writes:
            # A policy of the documents may have put the input's tree on top of something abandoned.
            if files != self.scene.repository.files(run.input):
                self._broken(5, f"{accepted.run} wrote nothing, its output is {accepted.ref[:8]}")
            return
        parent = self.scene.repository.files(f"{accepted.ref}~1")
        wrote = {path for path in files if files[path] != parent.get(path)}
        prefix = next((path.partition("/")[0] for path in wrote), "nothing")
        expected = {f"{prefix}/out.txt", f"{prefix}/only-{accepted.run}.txt"}
        if wrote != expected or files[f"{prefix}/out.txt"] != accepted.run.encode():
            self._broken(5, f"{accepted.run} is accepted with {sorted(wrote)}")

    def _row_may_have_ended(self, actor: Actor, call: PortCall) -> None:
        """Did this update end a row that is no longer its sender's, or take it from its holder?

        Between the last question of an attempt and its end the row may change hands: nothing can
        close that one step. An attempt that asked later must know, except one that is younger than
        a second.
        """
        assert actor.record is not None, "only attempts end rows"
        sent = actor.record.snapshot
        row = self.scene.conductor.state.find_row(sent.task_id)
        if not self._was_open or row is None or row.status is AttemptStatus.IN_PROGRESS:
            return
        if (row.poll_count, row.scheduled_time) == (sent.poll_count, sent.scheduled_time):
            return
        young = call.asked - actor.began < 1.0
        if not (young or actor.old) and call.after > self.facts.handed_over.get(row.task_id, 0):
            self._broken(13, f"{actor.name} sent {row.status} for a row that was handed on")
        if call.operation == "queue.hand_back":  # the row stays open: whoever ends it is checked
            self.seen.add("a hand back met a row that changed hands after the last look")
            return
        self.seen.add("an end met a row that changed hands after the last look")
        self._unclosable.add((row.task_id, row.scheduled_time))

    def _open_row(self, actor: Actor) -> TaskRow | None:
        """The row of an attempt, while it is open."""
        assert actor.record is not None, "only attempts have rows"
        row = self.scene.conductor.state.find_row(actor.record.snapshot.task_id)
        return None if row is None or row.status.is_terminal else row

    def _check_history(self) -> None:
        history = self._history(MAIN)
        branches = {MAIN, *(each.branch for each in self.accepted.values())}
        there = self.scene.repository.branch_names() - self.runs.removed.keys()
        known = {each: self._history(each) for each in branches if each in there}
        for accepted in self.accepted.values():
            if accepted.ref not in known.get(accepted.branch, {accepted.ref}):
                self._broken(1, f"{accepted.ref[:8]} of {accepted.reference} is gone")
        self.runs.check_history(history)
        for commit in self.foreign:
            if commit not in history:
                self._broken(2, f"{commit[:8]} is gone")

    def _history(self, branch: BranchName) -> set[CommitId]:
        return {record.commit for record in self.scene.repository.history(branch)}

    def _broken(self, number: int, what: str) -> None:
        broken(self.scene.mix, number, what)


def monitor_of(scene: Scene, seen: set[str], actors: Sequence[Actor]) -> Monitor:
    """A monitor with its bookkeeping."""
    facts = Facts(scene, actors)
    runs = Runs(scene, facts, seen)
    return Monitor(scene, seen, facts, Removals(scene, facts, runs), runs)
