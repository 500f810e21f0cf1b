"""Several listeners of bodies as one; the failure of one is the problem of none."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import final

from perago.app.telemetry.body_observer import BodyObserver
from perago.ports.task_body import BodyCall


@final
class BodyObservers(BodyObserver):
    """Tells each."""

    def __init__(self, observers: Sequence[BodyObserver]) -> None:
        self._observers = observers

    def output(self, call: BodyCall | None, stream: str, line: str) -> None:
        """Tell each."""
        for each in self._observers:
            with suppress(Exception):
                each.output(call, stream, line)

    def logged(self, call: BodyCall | None, level: int, logger: str, text: str) -> None:
        """Tell each."""
        for each in self._observers:
            with suppress(Exception):
                each.logged(call, level, logger, text)

    def sampled(
        self, call: BodyCall, metric: str, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        """Tell each."""
        for each in self._observers:
            with suppress(Exception):
                each.sampled(call, metric, name, value, labels)

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """Tell each."""
        for each in self._observers:
            with suppress(Exception):
                each.progressed(call, message, facts)

    def executor(self, slot: int, event: str, facts: Mapping[str, object]) -> None:
        """Tell each."""
        for each in self._observers:
            with suppress(Exception):
                each.executor(slot, event, facts)
