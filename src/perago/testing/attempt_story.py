"""What happened to one attempt, in order: phases, strikes, output, and how it ended.

A record that fills while the attempt runs; how it is shown is not known here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import final

from perago.domain.attempt import AttemptRecord
from perago.ports.workspace import Phase, Progress


class EventKind(StrEnum):
    """Where an event of an attempt comes from."""

    PHASE = "phase"
    INJECTED = "strike"
    OUTPUT = "output"
    END = "end"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, at the environment's seconds since its start."""

    seconds: float
    kind: EventKind
    text: str
    facts: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(slots=True)
class AttemptStory:
    """One attempt of one task: who ran it, what happened, how it ended."""

    worker: str
    task: str
    reference: str
    workflow_id: str
    task_id: str
    number: int
    events: list[Event] = field(default_factory=list[Event])
    status: str = "RUNNING"
    recorded: str = ""
    reason: str | None = None
    output: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def accepted(self) -> bool:
        """Whether Conductor counted its completion."""
        return self.status == "COMPLETED" and self.recorded in {"recorded", "acknowledged"}

    def phases(self) -> tuple[str, ...]:
        """The names of the phases it went through."""
        return tuple(event.text for event in self.events if event.kind is EventKind.PHASE)

    def facts_of(self, phase: Phase) -> Mapping[str, object]:
        """What the last event of a phase said; empty when it was not reached."""
        found = [
            event.facts
            for event in self.events
            if event.kind is EventKind.PHASE and event.text == phase
        ]
        return found[-1] if found else {}


def begin_story(worker: str, record: AttemptRecord, number: int) -> AttemptStory:
    """The empty story of an attempt that was just polled."""
    snapshot = record.snapshot
    return AttemptStory(
        worker=worker,
        task=snapshot.task_type,
        reference=snapshot.reference_name,
        workflow_id=snapshot.workflow_id,
        task_id=snapshot.task_id,
        number=number,
    )


@final
class StoryProgress(Progress):
    """Writes phases into the story of the attempt that runs; outside of one nothing is told."""

    def __init__(
        self, seconds: Callable[[], float], watchers: Sequence[Callable[[], None]] = ()
    ) -> None:
        self._seconds = seconds
        self._watchers = watchers
        self.story: AttemptStory | None = None

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        """Keep the phase."""
        self.note(EventKind.PHASE, str(phase), facts)

    def note(self, kind: EventKind, text: str, facts: Mapping[str, object] | None = None) -> None:
        """Keep anything else."""
        if self.story is not None:
            event = Event(self._seconds(), kind, text, {} if facts is None else dict(facts))
            self.story.events.append(event)
            for seen in self._watchers:
                seen()
