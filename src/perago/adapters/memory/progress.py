"""A listener that remembers."""

from collections.abc import Mapping
from typing import final

from perago.ports.workspace import Phase, Progress


@final
class RecordingProgress(Progress):
    """Keeps every phase with its facts, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[Phase, Mapping[str, object]]] = []

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        self.events.append((phase, facts))
