"""Who hears of attempts and task functions: logs, metrics, spans. None raises or decides.

`Listeners` and `BodyObservers` hand each event to all and drop what one of them raises. `write`
makes a log record, `facts_of` the ids in it. `SeenRepositories` remembers where attempts worked,
for garbage collection.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol, cast, final

from perago.app.attempt.context import Attempt
from perago.app.attempt.run_attempt import AttemptReport
from perago.domain.attempt import Stale
from perago.domain.logical_execution import RepositoryId
from perago.ports.task_body import BodyCall
from perago.ports.workspace import Phase


class AttemptListener(Protocol):
    """Hears how attempts go."""

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """One step ended, so many seconds after the one before."""
        ...

    def lost(self, attempt: Attempt, stale: Stale) -> None:
        """A heartbeat found out that the attempt no longer counts."""
        ...

    def ended(self, attempt: Attempt, report: AttemptReport, seconds: float) -> None:
        """An attempt is over."""
        ...

    def warned(self, text: str, why: str) -> None:
        """Something went wrong and the attempt goes on."""
        ...


@final
class Listeners(AttemptListener):
    """Tells several; the failure of one is the problem of none."""

    def __init__(self, listeners: Sequence[AttemptListener]) -> None:
        self._listeners = listeners

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """Tell each."""
        for each in self._listeners:
            try:  # not `suppress`, which costs as much as a listener
                each.phase(attempt, phase, facts, seconds)
            except Exception:  # noqa: BLE001, S112 - a listener decides nothing
                continue

    def lost(self, attempt: Attempt, stale: Stale) -> None:
        """Tell each."""
        for each in self._listeners:
            with suppress(Exception):
                each.lost(attempt, stale)

    def ended(self, attempt: Attempt, report: AttemptReport, seconds: float) -> None:
        """Tell each."""
        for each in self._listeners:
            with suppress(Exception):
                each.ended(attempt, report, seconds)

    def warned(self, text: str, why: str) -> None:
        """Tell each."""
        for each in self._listeners:
            with suppress(Exception):
                each.warned(text, why)


def facts_of(attempt: Attempt) -> dict[str, object]:
    """The ids by which one attempt is found in every place that knows it."""
    row = attempt.row
    facts: dict[str, object] = {
        "task_name": row.task_type,
        "workflow_id": row.workflow_id,
        "task_id": row.task_id,
        "reference_name": row.reference_name,
        "retry_count": row.retry_count,
        "execution_id": attempt.execution_id,
    }
    if attempt.traceparent is not None:
        facts["traceparent"] = attempt.traceparent
    return facts


def write(logger: logging.Logger, level: int, event: str, facts: Mapping[str, object]) -> None:
    """Write one line: the event, and its facts under `perago`, which our formatter reads.

    `logger.log` would look for the line of code and the thread, which our formatters do not print
    and which cost more to find than the line costs to write.
    """
    if logger.isEnabledFor(level):
        now = time.time()  # noqa: TID251 - as the library's records
        record = logging.LogRecord.__new__(logging.LogRecord)
        record.__dict__ = {
            **_UNTOLD,
            "name": logger.name,
            "levelno": level,
            "levelname": logging.getLevelName(level),
            "msg": event,
            "created": now,
            "msecs": now % 1 * 1000,
            "perago": dict(facts),
        }
        logger.handle(record)


# The attributes of a record that `write` leaves as they are; handlers expect all of them.
_UNTOLD = vars(logging.makeLogRecord({}))


class BodyObserver:
    """Listens to task functions, and by itself to nothing: a listener overrides what it wants.

    `call` is None for what an executor says between two of them.
    """

    def output(self, call: BodyCall | None, stream: str, line: str) -> None:
        """One line on standard output or standard error."""

    def logged(self, call: BodyCall | None, level: int, logger: str, text: str) -> None:
        """One record of Python's logging."""

    def sampled(
        self, call: BodyCall, metric: str, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        """One sample of a metric."""

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """What the body said of its progress."""

    def executor(self, slot: int, event: str, facts: Mapping[str, object]) -> None:
        """An executor started, ended, or is restarted."""


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


@final
class SeenRepositories(AttemptListener):
    """Remembers names from the inputs of attempts that got as far as a policy."""

    def __init__(self) -> None:
        self.names: set[RepositoryId] = set()

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """The input is valid once there is a policy."""
        del facts, seconds
        if phase is Phase.POLICY:
            given = cast("Mapping[str, object]", attempt.record.input_data["workspace"])
            self.names.add(RepositoryId(str(given["repository"])))

    def lost(self, attempt: Attempt, stale: Stale) -> None:
        """Nothing to remember."""

    def ended(self, attempt: Attempt, report: AttemptReport, seconds: float) -> None:
        """Nothing to remember."""

    def warned(self, text: str, why: str) -> None:
        """Nothing to remember."""
