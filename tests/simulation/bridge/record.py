"""Records a schedule of the simulation as a transcript, step by step, answers included."""

import math
from collections.abc import Sequence
from typing import cast

from tests.people import CACHED_SECONDS
from tests.simulation.actors import Actor
from tests.simulation.bridge.held import at_once
from tests.simulation.bridge.memory_stage import MemoryStage, open_memory_stage
from tests.simulation.bridge.outcome import ends_of, outcome_of
from tests.simulation.bridge.steps import (
    BEGINS,
    ITS_FUNCTION,
    LANDS,
    NOBODY,
    SLEEPS,
    TIME,
    TURNS,
    Step,
    Transcript,
)
from tests.simulation.bridge.words import Words
from tests.simulation.choices import Chooser
from tests.simulation.engine import Engine
from tests.simulation.mix import Foreign, Kind, Mix, Shape
from tests.simulation.moves import COMMITS
from tests.simulation.scene import Scene
from tests.simulation.steering import PortCall, Sleep

from perago.domain.attempt import AttemptStatus
from perago.ports.lakefs import CommitRequest


class Recorder(Engine):
    """The engine, writing down what happens."""

    def __post_init__(self) -> None:
        """Begin with an empty transcript."""
        self.story_text: list[Step] = []
        self.words = Words()
        self._answer = ""
        self._commits: set[tuple[object, ...]] = set()
        self._expired: set[str] = set()
        self._picked = math.inf
        self.unplayable = False
        super().__post_init__()
        self.words.of(self.scene.input)

    def open(self) -> Scene:
        """Servers that say what each call was given."""
        self.stage: MemoryStage = open_memory_stage(self.mix)
        return self.stage

    def start(self, actor: Actor) -> None:
        """A process begins."""
        about = self.words.of(actor.about)
        self.story_text.append(Step(actor.name, BEGINS, actor.purpose, about=about))
        super().start(actor)

    def from_outside(self, what: str, about: str = "", answer: object = None) -> None:
        """Somebody else did something."""
        self._look_for_leases()
        if what == f"{COMMITS}{Foreign.CHERRY_PICK.value}" and answer is not None:
            self._picked = self.scene.clock.monotonic()
        self.story_text.append(Step(NOBODY, what, self.words.of(about), self.words.of(answer)))

    def do(self, actor: Actor, call: PortCall) -> tuple[object, Exception | None]:
        """The server takes a request."""
        result, error = super().do(actor, call)
        self._look_for_equal_commits(call)
        result = self.words.in_order(result)
        self._answer = self.words.of(error or result)
        if call.late:
            self.story_text.append(Step(actor.name, call.operation, LANDS, self._answer))
        return result, error

    def _become(self, actor: Actor, call: PortCall, fate: str | None) -> None:
        position, self._answer = len(self.story_text), ""
        about = self.words.of(call.about)
        super()._become(actor, call, fate)
        self.story_text.insert(
            position, Step(actor.name, call.operation, fate or "", self._answer, about)
        )

    def _body(self, actor: Actor) -> None:
        position, run = len(self.story_text), f"{actor.name}.{actor.steps}"
        super()._body(actor)
        fate = self.chooser.made.get(f"fate {actor.name}:{actor.steps}", "")
        self.story_text.insert(position, Step(actor.name, ITS_FUNCTION, fate, run))

    def _advance(self, actor: Actor) -> None:
        stop = actor.stop
        super()._advance(actor)
        if isinstance(stop, Sleep):
            self.story_text.append(Step(actor.name, SLEEPS))
        elif stop is None:
            self.story_text.append(Step(actor.name, TURNS))

    def _move_clock(self, moment: int, silent: Sequence[Actor]) -> None:
        before = self._open_rows()
        super()._move_clock(moment, silent)
        rows = self.stage.conductor.state.runs[self.stage.workflow].rows
        expired = [name for name in before if rows[name].status is AttemptStatus.TIMED_OUT]
        self._expired.update(expired)
        told = self.words.of(" ".join(expired))
        self.story_text.append(Step(NOBODY, TIME, str(self.stage.clock.elapsed), told))

    def _look_for_equal_commits(self, call: PortCall) -> None:
        """Two commits that are equal to the second are one; nobody holds the real seconds."""
        for each in cast("tuple[object, ...]", call.about or ()):
            if isinstance(each, CommitRequest):
                commit = (each.message, *sorted(each.metadata.items()))
                self.unplayable = self.unplayable or commit in self._commits
                self._commits.add(commit)

    def _look_for_leases(self) -> None:
        """A lease that expired while the workflow was paused is noticed only at its resume.

        A real lease cannot be made to expire at that step and not before.
        """
        rows = self.stage.conductor.state.runs[self.stage.workflow].rows.values()
        timed_out = {row.task_id for row in rows if row.status is AttemptStatus.TIMED_OUT}
        self.unplayable = self.unplayable or not timed_out <= self._expired

    def look_at_the_end(self) -> None:
        """Three things that cannot be brought about on real servers, or not reliably.

        The input of a workflow that runs stays what it is; a real JOIN that looks between a
        failure of a branch and its retry ends the workflow; and real minutes do not go by in which
        a lakeFS forgets a picked commit.
        """
        self.unplayable |= self.scene.clock.monotonic() - self._picked > CACHED_SECONDS
        rows = self.stage.conductor.state.runs[self.stage.workflow].rows.values()
        failed = any(row.retried for row in rows)
        forked = self.mix.shape is Shape.FORK
        self.unplayable = self.unplayable or (failed and forked) or self.spent[Kind.ANEW] > 0

    def _open_rows(self) -> list[str]:
        rows = self.stage.conductor.state.runs[self.stage.workflow].open_rows()
        return [row.task_id for row in rows if row.status is AttemptStatus.IN_PROGRESS]


def record(name: str, mix: Mix, chooser: Chooser) -> Transcript | None:
    """Run a schedule in memory; see `recorded`."""
    return recorded(name, Recorder(mix, chooser))


def recorded(name: str, recorder: Recorder) -> Transcript | None:
    """Run a schedule; None where no real servers can be made to do the same.

    An invariant that breaks is an error here.
    """
    ran = recorder.run()
    assert ran.broken is None, f"{name}: {ran.broken}"
    recorder.look_at_the_end()
    if recorder.unplayable:
        return None
    stage, words = recorder.stage, recorder.words
    place = (stage.repository_id, stage.input, stage.workflow)
    left = at_once(outcome_of(stage.lakefs_ports, stage.conductor_ports, place, words))
    outcome = {**left, "processes": ends_of(recorder.actors, words)}
    return Transcript(name, recorder.mix, recorder.story_text, outcome, ran.seen)
