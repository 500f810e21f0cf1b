"""What a running body lets others know: output, log records, samples, progress.

A listener; it never raises and never decides. Who writes it where is not known here.
"""

from collections.abc import Mapping
from typing import Protocol

from perago.ports.task_body import BodyCall


class BodyObserver(Protocol):
    """Listens to bodies; `call` is None for what an executor says between two of them."""

    def output(self, call: BodyCall | None, stream: str, line: str) -> None:
        """One line on standard output or standard error."""
        ...

    def logged(self, call: BodyCall | None, level: int, logger: str, text: str) -> None:
        """One record of Python's logging."""
        ...

    def sampled(
        self, call: BodyCall, metric: str, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        """One sample of a metric."""
        ...

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """What the body said of its progress."""
        ...

    def executor(self, slot: int, event: str, facts: Mapping[str, object]) -> None:
        """An executor started, ended, or is restarted."""
        ...


class NobodyObserves(BodyObserver):
    """For tests and one-off runs."""

    def output(self, call: BodyCall | None, stream: str, line: str) -> None:
        """Drop it."""

    def logged(self, call: BodyCall | None, level: int, logger: str, text: str) -> None:
        """Drop it."""

    def sampled(
        self, call: BodyCall, metric: str, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        """Drop it."""

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """Drop it."""

    def executor(self, slot: int, event: str, facts: Mapping[str, object]) -> None:
        """Drop it."""
