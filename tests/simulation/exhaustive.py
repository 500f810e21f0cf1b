"""Every schedule of two attempts with a few differences: at most so many switches and faults.

The search takes the default schedule, then every schedule with one difference more, from the point
behind the last one. A state that was met before, with at least as much left to spend, is not gone
on from: what follows was or will be explored from there. So the search ends, and says how many
states there are.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import final

from tests.simulation.actors import Actor
from tests.simulation.choices import Chooser, Differences, Weighted
from tests.simulation.engine import Engine, Ran
from tests.simulation.explore import failure_in_words
from tests.simulation.mix import Kind, Mix
from tests.simulation.moves import EXPIRES, REQUEUES

OFTEN = {Kind.FAULT: 9, Kind.STAND: 9, Kind.EXPIRE: 9, Kind.REQUEUE: 1}
PAIR = Mix("pair", "two attempts of one task, exhaustively", OFTEN, attempts_max=2)


@dataclass(frozen=True, slots=True)
class Left:
    """What a schedule may still spend."""

    switches: int
    faults: int

    def covers(self, other: "Left") -> bool:
        """Whether whatever the other can reach is reached with this as well."""
        return self.switches >= other.switches and self.faults >= other.faults


@dataclass(slots=True)
class Explored:
    """What an exhaustive search met."""

    schedules: int = 0
    states: dict[int, list[Left]] = field(default_factory=dict[int, list[Left]])
    broken: list[Ran] = field(default_factory=list[Ran])

    def is_new(self, state: int, left: Left) -> bool:
        """Whether to go on from here; remembers it."""
        known = self.states.setdefault(state, [])
        if any(each.covers(left) for each in known):
            return False
        known.append(left)
        return True


class MetBefore(Exception):  # noqa: N818 - ends a schedule, is no error
    """This state was gone on from already."""


@dataclass(frozen=True, slots=True)
class Open:
    """A schedule to run: its differences, from which point on it may differ again."""

    differences: Mapping[str, str]
    start: int
    left: Left


@final
class Bounded(Chooser):
    """Replays a schedule up to its last difference, then offers every next one."""

    def __init__(self, wanted: Open, explored: Explored, offer: Callable[[Open], None]) -> None:
        self.made: Differences = dict(wanted.differences)
        self.engine: Engine | None = None
        self._wanted, self._explored, self._offer = wanted, explored, offer
        self._points = 0

    def move(
        self, point: str, options: Callable[[], Weighted], *, often: bool = False
    ) -> str | None:
        """A switch, or time, or an operator."""
        del often
        self._points += 1
        if self._points > self._wanted.start:
            assert self.engine is not None, "set before the schedule runs"
            if not self._explored.is_new(state_of(self.engine), self._wanted.left):
                raise MetBefore
            self._offer_all(f"move {point}", options)
        return self._wanted.differences.get(f"move {point}")

    def fate(self, point: str, options: Callable[[], Weighted]) -> str | None:
        """A fault of one call."""
        self._points += 1
        if self._points > self._wanted.start:
            self._offer_all(f"fate {point}", options)
        return self._wanted.differences.get(f"fate {point}")

    def _offer_all(self, address: str, options: Callable[[], Weighted]) -> None:
        left = self._wanted.left
        if not (left.faults or (left.switches and address.startswith("move"))):
            return  # looking what is possible costs more than a step does
        for name, _ in options():
            is_fault = address.startswith("fate") or name.startswith((EXPIRES, REQUEUES))
            next_left = Left(left.switches - (not is_fault), left.faults - is_fault)
            if min(next_left.switches, next_left.faults) >= 0:
                differences = {**self._wanted.differences, address: name}
                self._offer(Open(differences, self._points, next_left))


def explore_exhaustively(
    mix: Mix = PAIR, *, switches: int, faults: int, schedules_max: int = sys.maxsize
) -> Explored:
    """Until nothing is open; stops at the first broken schedule."""
    explored = Explored()
    # The last first: few are open at a time. The other order meets two states of a hundred less
    # often, and keeps a million schedules in memory.
    todo = [Open({}, 0, Left(switches, faults))]
    while todo and not explored.broken and explored.schedules < schedules_max:
        chooser = Bounded(todo.pop(), explored, todo.append)
        engine = chooser.engine = Engine(mix, chooser, listens=True)
        explored.schedules += 1
        try:
            ran = engine.run()
        except MetBefore:
            engine.close()
            continue
        if ran.broken is not None:
            explored.broken.append(ran)
    return explored


def state_of(engine: Engine) -> int:
    """Everything that the rest of a schedule can depend on, as one number."""
    scene = engine.scene
    repository = scene.lakefs.repository(scene.repository.id)
    branches = tuple(
        (name, branch.head.id, len(branch.uncommitted()))
        for name, branch in sorted(repository.branches.items())
    )
    run = scene.conductor.state.runs[scene.workflow]
    rows = tuple(
        (
            row.task_id,
            row.status,
            row.poll_count,
            row.scheduled_time,
            row.update_time,
            row.worker_id,
        )
        for row in run.rows.values()
    )
    queued = tuple(sorted(scene.conductor.state.queued_times_ms()))
    wire = tuple((late.sender.name, late.call.operation) for late in engine.wire)
    monitor = engine.monitor
    known = (tuple(monitor.facts.runs), tuple(monitor.accepted), len(monitor.publications))
    servers = (branches, tuple(sorted(repository.tags.items())), rows, queued, run.status, wire)
    actors = tuple(_state_of(actor, engine) for actor in engine.actors)
    current = engine.current.name if engine.current else ""
    spent = engine.spent[Kind.REQUEUE]
    return hash((servers, known, actors, current, spent, scene.clock.elapsed))


def _state_of(actor: Actor, engine: Engine) -> object:
    """A process is what it heard; of a dead one only its row is left."""
    row = actor.record.snapshot.task_id if actor.record else ""
    if not engine.live(actor):
        return actor.name, row
    since = actor.stale_since
    asked = since is not None and actor.last_call > since
    held = actor.last_call > engine.monitor.facts.handed_over.get(row, 0)
    return actor.name, row, actor.heard, actor.standing, since is None, asked, held


def main() -> int:
    """Explore as asked; 1 when something is broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--switches", type=int, default=2)
    parser.add_argument("--faults", type=int, default=2)
    given = parser.parse_args()
    began = time.perf_counter()
    explored = explore_exhaustively(switches=given.switches, faults=given.faults)
    took = time.perf_counter() - began
    told = f"{explored.schedules} schedules, {len(explored.states)} states, {took:.0f} s"
    sys.stdout.write(f"{told}\n")
    for ran in explored.broken:
        sys.stdout.write(f"{failure_in_words(PAIR, 0, ran)}\n")
    return int(bool(explored.broken))


if __name__ == "__main__":
    sys.exit(main())
