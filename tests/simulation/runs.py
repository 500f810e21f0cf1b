"""What begin and finish promise, checked as soon as it can be broken.

A run is what finish was given: its base and its head. What a commit has to show is worked out here
from whole trees, because the code that compares them is under test.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.simulation.actors import GC, Actor
from tests.simulation.facts import Dispatched, Facts
from tests.simulation.invariants import broken
from tests.simulation.mix import Kind
from tests.simulation.others import is_run_branch
from tests.simulation.scene import BEGIN, FINISH, MAIN, Scene
from tests.simulation.steering import PortCall

from perago.adapters.memory.conductor_rows import TaskRow
from perago.domain.attempt import AttemptRecord, as_mapping
from perago.domain.commit_metadata import EXPECTED_HEAD, LOGICAL_EXECUTION_KEY, RUN, STAGING_COMMIT
from perago.domain.lakefs import BranchName, CommitId, CommitRecord, RepositoryId, TagName
from perago.domain.names import DECISION_TAG_PREFIX
from perago.domain.run import History, Run, base_tag, key_of_run


@dataclass(frozen=True, slots=True)
class Given:
    """What a finish was given."""

    run: Run
    head: CommitId
    history: object

    @property
    def changes_nothing(self) -> bool:
        """Whether no task of the run has published."""
        return self.head == self.run.base


def given_to(params: object) -> Given:
    """The params of a row of finish."""
    asked = as_mapping(params)
    told, workspace = as_mapping(asked.get("run")), as_mapping(asked.get("workspace"))
    return Given(run_of(told), CommitId(str(workspace["ref"])), asked.get("history"))


def run_of(told: Mapping[str, object]) -> Run:
    """The run that begin has put out."""
    key = key_of_run(str(told["run_branch"]))
    assert key is not None, "a run branch is named by its key"
    repository = RepositoryId(str(told["repository"]))
    return Run(repository, BranchName(str(told["branch"])), CommitId(str(told["base"])), key)


@dataclass(slots=True)
class Runs:
    """The runs of one schedule."""

    scene: Scene
    facts: Facts
    seen: set[str]
    published: dict[str, CommitRecord] = field(default_factory=dict[str, CommitRecord])
    finished: set[str] = field(default_factory=set[str])
    """Keys of runs whose finish Conductor has recorded as completed."""
    removed: dict[str, int] = field(default_factory=dict[str, int])
    """Run branches that were free to go, and the step in which each went last."""
    given_up: set[str] = field(default_factory=set[str])
    """Those of them that gc or an operator has removed."""
    known: set[str] = field(default_factory=set[str])
    direct: set[CommitId] = field(default_factory=set[CommitId])
    """Publications of tasks that were told to publish on the target itself."""
    _begun: dict[int, Run] = field(default_factory=dict[int, Run])
    _branches: dict[int, str] = field(default_factory=dict[int, str])
    _accepted: dict[Dispatched, CommitId] = field(default_factory=dict[Dispatched, CommitId])

    def finish_published(self, actor: Actor, record: CommitRecord) -> None:
        """A finish moved the target."""
        assert actor.record is not None, "only attempts finish"
        given = given_to(actor.record.input_data["params"])
        who = f"{record.commit[:8]} of {actor.name}"
        if given.run.key in self.published:
            earlier = self.published[given.run.key].commit
            self._broken(25, f"{who} and {earlier[:8]} publish {given.run.key[-8:]}")
        self.published[given.run.key] = record
        told = record.metadata.get(RUN), record.metadata.get(STAGING_COMMIT)
        if told != (given.run.key, given.head):
            self._broken(29, f"{who} says {told}, given was {given.head[:8]}")
        self._check_decision(record, given, who)
        self._check_parents(record, given, who)
        self._check_whole(record, given, who)
        moved = record.parents[0] != given.run.base
        self.seen.add("a run was rebased" if moved else "a run was published on its base")
        if len(self.published) > 1:
            self.seen.add("a second run was published")

    def _check_decision(self, record: CommitRecord, given: Given, who: str) -> None:
        often = self.scene.mix.often
        tags = self.scene.lakefs.repository(self.scene.repository.id).tags
        tag = TagName(f"{DECISION_TAG_PREFIX}{record.metadata.get(LOGICAL_EXECUTION_KEY)}")
        decided = tags.get(tag)
        if decided is None and Kind.GC in often:
            return  # the decision may be gone by now
        if decided != given.head:
            self._broken(29, f"{who} publishes {given.head[:8]}, decided is {decided}")

    def _check_parents(self, record: CommitRecord, given: Given, who: str) -> None:
        """First the head that it names, then the run's own history, if that is wanted."""
        expected = CommitId(record.metadata.get(EXPECTED_HEAD, ""))
        rebased = expected != given.run.base
        if record.parents[0] != expected:
            self._broken(12, f"{who} stands on {record.parents}, it names {expected[:8]}")
        if given.history == History.SQUASH:
            if len(record.parents) != 1:
                self._broken(24, f"{who} is to be one commit, it has {record.parents}")
            self.seen.add("a run was squashed")
            return
        graph = self.scene.lakefs.repository(self.scene.repository.id).graph
        behind = record.parents[1:]
        if rebased and behind:
            behind = graph[behind[0]].record.parents[1:]
        if behind != (given.head,):
            self._broken(24, f"{who} does not keep the history of {given.head[:8]}")

    def _check_whole(self, record: CommitRecord, given: Given, who: str) -> None:
        """It shows what stood on the target, and exactly what the run has changed."""
        files = self.scene.repository.files
        base, head = files(given.run.base), files(given.head)
        expected = files(record.parents[0])
        for path in base.keys() | head.keys():
            if base.get(path) == head.get(path):
                continue
            if path in head:
                expected[path] = head[path]
            else:
                expected.pop(path, None)
        found = files(record.commit)
        if found != expected:
            paths = [
                path
                for path in found.keys() | expected.keys()
                if found.get(path) != expected.get(path)
            ]
            self._broken(24, f"{who} shows otherwise than its run: {sorted(paths)}")

    def target_moved(self, foreign: list[CommitId]) -> None:
        """Whoever moved the target: nothing stands there but what may."""
        if not self.scene.mix.shape.has_runs:
            return
        mine = {record.commit for record in self.published.values()}
        allowed = {self.scene.input, *foreign, *mine, *self.direct}
        for record in self.scene.repository.history(MAIN):
            if record.commit not in allowed and record.parents:
                self._broken(23, f"{record.commit[:8]} is on {MAIN}")

    def accept(self, row: TaskRow, *, by_another: bool) -> None:
        """Conductor took the end of a built-in task."""
        dispatched = row.task_id, row.scheduled_time
        if dispatched in self._accepted:
            return
        result = as_mapping(row.output_data.get("result"))
        workspace = as_mapping(result["workspace"])
        ref = self._accepted[dispatched] = CommitId(str(workspace["ref"]))
        if row.task_type == BEGIN and not by_another:
            self._check_begun(dispatched, row, run_of(as_mapping(result["run"])), workspace)
        elif row.task_type == FINISH:
            self._check_finished(row, ref, str(workspace["branch"]), by_another=by_another)

    def _check_begun(
        self,
        dispatched: Dispatched,
        row: TaskRow,
        run: Run,
        workspace: Mapping[str, object],
    ) -> None:
        execution = self.facts.execution(dispatched, row.retried_task_id)
        who = f"{row.reference_name} of execution {execution}"
        earlier = self._begun.setdefault(execution, run)
        if earlier != run:
            self._broken(28, f"{who} began {earlier}, and now {run}")
        history = {record.commit for record in self.scene.repository.history(MAIN)}
        if run.base not in history or workspace["ref"] != run.base:
            self._broken(28, f"{who} began at {run.base[:8]}, which is not on {MAIN}")
        state = self.scene.lakefs.repository(self.scene.repository.id)
        tag = state.tags.get(base_tag(run.key))
        if tag != run.base and (tag is not None or not self._may_be_removed()):
            self._broken(28, f"{who} began at {run.base[:8]}, its tag stands on {tag}")
        self.seen.add("a run has begun")

    def _may_be_removed(self) -> bool:
        return bool({Kind.GC, Kind.ABANDON} & self.scene.mix.often.keys())

    def _check_finished(
        self, row: TaskRow, ref: CommitId, branch: str, *, by_another: bool
    ) -> None:
        given = given_to(row.input_data["params"])
        self.finished.add(given.run.key)
        if by_another:
            return  # its holder had asked for the last time before that end landed
        shown = self.published.get(given.run.key)
        if shown is None and given.changes_nothing:
            expected = given.run.base
            self.seen.add("a run that changed nothing was finished")
        else:
            expected = CommitId("") if shown is None else shown.commit
        if (branch, ref) != (MAIN, expected):
            self._broken(26, f"{row.reference_name} ended with {ref[:8]}, shown is {expected[:8]}")
        self.seen.add("a run was finished")

    def began(self, record: AttemptRecord, *, counts: bool) -> bool:
        """Whether an attempt of begin has made a run branch; all of one begin make the same.

        One that is stale may have seen marks which gc has removed since, and then the next attempt
        begins another run. So its run is not the one to agree with.
        """
        names = {each for each in self.scene.repository.branch_names() if is_run_branch(each)}
        new = names - self.known
        self.known |= names
        if not counts and Kind.GC in self.scene.mix.often:
            return bool(new)
        for name in new:
            execution = self.facts.execution_of(record)
            earlier = self._branches.setdefault(execution, name)
            if earlier in self.given_up:  # its marks may be gone with it, so another run begins
                earlier = self._branches[execution] = name
                self.seen.add("a run began anew after it was given up")
            if earlier != name:
                self._broken(28, f"execution {execution} began {earlier}, and now {name}")
        return bool(new)

    def check_history(self, history: set[CommitId]) -> None:
        """No run that was published has gone from the target."""
        for key, record in self.published.items():
            if record.commit not in history:
                self._broken(26, f"{record.commit[:8]} of run {key[-8:]} is gone")

    def landed_too_late(self, branch: str, call: PortCall) -> bool:
        """A merge of before its run branch was removed lands there, where a late request made it.

        Its sender could not know, and no server compares whose branch it is: docs/guarantees.md,
        runs. The target does not change, and gc removes the branch.
        """
        if call.after >= self.removed.get(branch, 0):
            return False
        self.seen.add("a merge landed on the branch of a run that was removed")
        return True

    def gone(self, actor: Actor, name: str, step: int, *, decided: bool = False) -> None:
        """A run branch or a base tag was removed: was it free to go?"""
        key = key_of_run(name)
        if key is None:
            return
        self.removed[name] = step
        self.known.discard(name)
        if actor.holds_a_row:
            if key not in self.finished:
                self._broken(27, f"{actor.name} removed {name[:24]}, its finish is not recorded")
            return
        alive = not self.scene.workflow_is_terminal and self.facts.alive_since <= actor.started
        if alive:
            self._broken(27, f"{actor.name} removed {name[:24]} of a running workflow")
        if decided and key not in self.published and actor.purpose == GC:
            self._broken(27, f"{actor.name} removed {name[:24]}, its finish has decided")
        self.given_up.add(name)
        if is_run_branch(name):
            self.seen.add(f"{actor.purpose} removed a run")

    def _broken(self, number: int, what: str) -> None:
        broken(self.scene.mix, number, what)
