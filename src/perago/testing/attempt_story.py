"""What happened to one attempt, in order: its events, injected faults, output, and how it ended.

`StoryListener` reads the events that the attempt emits, as the log and the metrics of a worker do.
The kit adds what no attempt can tell: planned faults, the death of its process, and what the task
function printed. How a story is shown is not known here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import final

from perago.app.attempt.context import Attempt
from perago.app.telemetry.listeners import AttemptListener
from perago.domain.attempt import AttemptRecord
from perago.ports.workspace import Phase


class EventKind(StrEnum):
    """Where an event of an attempt comes from."""

    PHASE = "phase"
    INJECTED = "fault"
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
class StoryListener(AttemptListener):
    """Reads the events of one attempt into its story."""

    def __init__(
        self,
        story: AttemptStory,
        seconds: Callable[[], float],
        watchers: Sequence[Callable[[], None]],
    ) -> None:
        self.story = story
        self._seconds = seconds
        self._watchers = watchers

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """Keep the event; the last one is the headline as well."""
        del attempt, seconds
        # A story is the same on memory and on real servers, so requests are not counted in it. The
        # reason has a line of its own.
        hidden = {"requests", "reason", "error"} if phase is Phase.ENDED else {"requests"}
        self.note(EventKind.PHASE, str(phase), {k: facts[k] for k in facts if k not in hidden})
        if phase is Phase.ENDED:
            self.story.status = str(facts["status"]).upper()
            self.story.recorded = str(facts["recorded"])
            self.story.reason = str(facts["reason"]) if "reason" in facts else None
            self.note(EventKind.END, self.story.status)

    def note(self, kind: EventKind, text: str, facts: Mapping[str, object] | None = None) -> None:
        """Keep what the kit saw itself."""
        self.story.events.append(Event(self._seconds(), kind, text, facts or {}))
        for seen in self._watchers:
            seen()
