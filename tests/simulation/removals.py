"""What gc and `reset-task` may remove: checked at the very deletion, and at the end.

Between the last question of a pass and its deletion the repository may change; what was so for the
whole pass it had to know.
"""

from dataclasses import dataclass, field

from tests.simulation.actors import Actor
from tests.simulation.facts import Facts
from tests.simulation.invariants import broken
from tests.simulation.runs import Runs
from tests.simulation.scene import FINISH, Scene

from perago.domain.attempt import WorkflowStatus
from perago.domain.commit_metadata import STAGING_BRANCH
from perago.domain.lakefs import BranchName, CommitId, TagName
from perago.domain.names import ATTEMPT_MARK_PREFIX, DECISION_TAG_PREFIX, staging_of


@dataclass(slots=True)
class Removals:
    """The checks of everything that is deleted by something else than an attempt."""

    scene: Scene
    facts: Facts
    runs: Runs
    _taken: list[tuple[Actor, BranchName]] = field(default_factory=list[tuple[Actor, BranchName]])
    decided_at: dict[TagName, int] = field(default_factory=dict[TagName, int])
    decided_late: set[TagName] = field(default_factory=set[TagName])
    _decided_for: dict[TagName, int] = field(default_factory=dict[TagName, int])
    """The execution that each decision is one of."""
    decided_in_vain: dict[TagName, Actor] = field(default_factory=dict[TagName, Actor])
    """Who made a decision whose branch was gone by then."""
    of_finish: set[TagName] = field(default_factory=set[TagName])
    """Decisions about a run: what they need is the run branch, which is judged with the run."""
    _tags: dict[TagName, CommitId] = field(default_factory=dict[TagName, CommitId])
    _branches: dict[BranchName, CommitId] = field(default_factory=dict[BranchName, CommitId])
    _gone_late: set[BranchName] = field(default_factory=set[BranchName])

    def before(self) -> None:
        """Something is about to be deleted."""
        repository = self.scene.lakefs.repository(self.scene.repository.id)
        self._tags = dict(repository.tags)
        self._branches = {name: each.head.id for name, each in repository.branches.items()}

    def after(self, actor: Actor, step: int, *, late: bool) -> None:
        """It is deleted: was it free to go?"""
        repository = self.scene.lakefs.repository(self.scene.repository.id)
        for branch in self._branches.keys() - repository.branches.keys():
            head = self._branches[branch]
            decided = self._is_decided(head, before=actor.started)
            self.runs.gone(actor, branch, step, decided=decided)
            if actor.holds_a_row:  # a pass had put it back, and its decision is finished since
                self._taken = [each for each in self._taken if each[1] != branch]
                continue
            self._branch_gone(actor, branch)
            if late:
                self._gone_late.add(branch)
        for tag in self._tags.keys() - repository.tags.keys():
            self._tag_gone(actor, tag, step)

    def decided(self, tag: TagName, actor: Actor, step: int, *, late: bool) -> None:
        """A decision was made."""
        repository = self.scene.lakefs.repository(self.scene.repository.id)
        metadata = repository.graph[repository.tags[tag]].record.metadata
        self.decided_at[tag] = step
        assert actor.record is not None, "only attempts decide"
        self._decided_for[tag] = self.facts.execution_of(actor.record)
        if actor.purpose == FINISH:
            self.of_finish.add(tag)
            return
        if late:
            self.decided_late.add(tag)
        branch = BranchName(metadata.get(STAGING_BRANCH, ""))
        if branch not in repository.branches:
            self.decided_in_vain[tag] = actor
            self._gone_late.discard(branch)  # whoever decided sees that it is gone

    def forget_gone(self) -> None:
        """A decision that is gone may be made again."""
        tags = self.scene.lakefs.repository(self.scene.repository.id).tags
        self.decided_at = {tag: step for tag, step in self.decided_at.items() if tag in tags}

    def at_the_end(self, published: set[str], accepted: set[int]) -> None:
        """Every decision that may still be published has its branch.

        One of an accepted execution may not: no retry comes. It need not be what was accepted. A
        pass with ages of zero may have removed the decision that was published, and then a retry
        decides anew and adopts that publication.
        """
        if self.scene.workflow_status is WorkflowStatus.COMPLETED:
            return  # only a rerun brings it back, which is another execution
        repository = self.scene.lakefs.repository(self.scene.repository.id)
        for tag, commit in repository.tags.items():
            if tag not in self.decisions() or commit in published:
                continue
            if tag in self.decided_late and self.scene.mix.gc_age_zero:
                continue  # an age of zero holds nothing for a request that is under way
            metadata = repository.graph[commit].record.metadata
            branch = metadata.get(STAGING_BRANCH, "")
            done = self._decided_for.get(tag) in accepted
            if branch not in repository.branches and not done and not self._unseen(tag, branch):
                broken(self.scene.mix, 14, f"{tag[:24]} has no branch {branch[-24:]}")

    def _unseen(self, tag: TagName, branch: str) -> bool:
        """Nobody could see that it is missing, and a pass does not look for what is missing.

        Either the request of a pass to delete it landed after pass and attempt had looked for the
        last time, or it went before the decision of a stale attempt that died before it looked, or
        a decision was made during a pass that died before it put the branch back.
        The commit stays readable by its id, so a retry publishes it, as long as lakeFS's own
        collection has not run: docs/guarantees.md.
        """
        decider = self.decided_in_vain.get(tag)
        stale = decider is not None and decider.stale_since is not None
        died = decider is not None and not decider.alive and decider.report is None
        crashed = any(
            each == branch and not actor.alive and self.decided_at.get(tag, -1) >= actor.started
            for actor, each in self._taken
        )
        return branch in self._gone_late or (stale and died) or crashed

    def process_ended(self, actor: Actor) -> None:
        """A pass that removed a branch while its attempt decided has put it back by its end."""
        gone = {branch for each, branch in self._taken if each is actor}
        repository = self.scene.lakefs.repository(self.scene.repository.id)
        if actor.name.startswith("reset"):
            # A request of before the reset made the decision again: its chain has ended.
            gone -= self._branches_of(self.decided_late & repository.tags.keys())
        for branch in sorted(gone & self._decided_branches() - repository.branches.keys()):
            broken(self.scene.mix, 7, f"{actor.name} removed {branch[-24:]}, its decision is there")

    def _is_decided(self, head: CommitId, *, before: int) -> bool:
        """Whether a finish has decided on a head, and that decision stands."""
        tags = self.scene.lakefs.repository(self.scene.repository.id).tags
        found = (tag for tag in self.of_finish if tags.get(tag) == head)
        return any(self.decided_at.get(tag, before) < before for tag in found)

    def decisions(self) -> set[TagName]:
        """The decisions of attempts that ran a function."""
        tags = self.scene.lakefs.repository(self.scene.repository.id).tags
        return {tag for tag in tags if tag.startswith(DECISION_TAG_PREFIX)} - self.of_finish

    def _decided_branches(self) -> set[BranchName]:
        return self._branches_of(self.decisions())

    def _branches_of(self, decisions: set[TagName]) -> set[BranchName]:
        repository = self.scene.lakefs.repository(self.scene.repository.id)
        records = [repository.graph[repository.tags[tag]].record for tag in decisions]
        return {BranchName(record.metadata.get(STAGING_BRANCH, "")) for record in records}

    def _holds_a_decision(self, head: CommitId) -> bool:
        """Whether a decided commit stands below a head.

        An attempt that repeats the creation of its branch deletes it at its end. If the first
        creation lands after that, there is an empty branch of that name, which keeps nothing.
        """
        repository = self.scene.lakefs.repository(self.scene.repository.id)
        decided = {repository.tags[tag] for tag in self.decisions()}
        while head not in decided:
            parents = repository.graph[head].record.parents
            if not parents:
                return False
            head = parents[0]
        return True

    def _branch_gone(self, actor: Actor, branch: BranchName) -> None:
        if branch in self._decided_branches() and self._holds_a_decision(self._branches[branch]):
            self._taken.append((actor, branch))
        for owner in self.facts.actors:
            mine = owner.record is not None and owner.record.snapshot.task_id in branch
            number = owner.name.removeprefix("w")
            counts = owner.alive and owner.stale_since is None
            if mine and counts and staging_of(branch).endswith(number):
                broken(self.scene.mix, 18, f"{actor.name} removed the branch of {owner.name}")

    def _tag_gone(self, actor: Actor, tag: TagName, step: int) -> None:
        self.runs.gone(actor, tag, step)
        repository = self.scene.lakefs.repository(self.scene.repository.id)
        alive = not self.scene.workflow_is_terminal and self.facts.alive_since <= actor.started
        if tag.startswith((DECISION_TAG_PREFIX, ATTEMPT_MARK_PREFIX)) and alive:
            broken(self.scene.mix, 19, f"{actor.name} removed {tag[:24]} of a running workflow")
        left = [
            other
            for other, step in self.decided_at.items()
            if other in repository.tags and step < actor.started
        ]
        if tag.startswith(ATTEMPT_MARK_PREFIX) and left:
            broken(self.scene.mix, 20, f"{actor.name} removed a mark, {left[0][:24]} is there")
