"""The log lines of attempts and task functions, and what task functions measure.

`AttemptLog` and `BodyTelemetry` write to Python's logging with the ids of the attempt. Files and
formats are not known here.
"""

import logging
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import final

from perago.app.attempt.complete import Recorded
from perago.app.attempt.context import Attempt
from perago.app.telemetry.listeners import AttemptListener, BodyObserver, facts_of, ids_of, write
from perago.app.telemetry.metrics import EXECUTOR_EVENTS, Metrics
from perago.domain.errors import PeragoError
from perago.ports.errors import ServiceError
from perago.ports.task_body import BodyCall
from perago.ports.workspace import Phase

LOGGER = logging.getLogger("perago.attempt")
TASK_LOGGER = logging.getLogger("perago.task")
WORKER_LOGGER = logging.getLogger("perago.worker")
EXECUTOR_LOGGER = logging.getLogger("perago.executor")


@final
class AttemptLog(AttemptListener):
    """One line an event."""

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """Write the line, as a warning where something went wrong."""
        if phase is Phase.COMPLETED:  # the line of the end says the same
            return
        level = logging.WARNING if _is_warning(phase, facts) else logging.INFO
        if not LOGGER.isEnabledFor(level):  # before the facts are collected, which costs more
            return
        line = {"phase": str(phase), "seconds": round(seconds, 6), **facts}
        if phase is Phase.STARTED:
            line["queue_wait_ms"] = attempt.record.queue_wait_ms
        if isinstance(error := facts.get("error"), Exception):
            del line["error"]  # its text is the reason
            if lines := _traceback(error):
                line["traceback"] = lines
        write(LOGGER, level, f"attempt {phase}", facts_of(attempt) | line)


def _is_warning(phase: Phase, facts: Mapping[str, object]) -> bool:
    if phase is not Phase.ENDED:
        return phase in {Phase.WARNED, Phase.LOST, Phase.HANDED_BACK, Phase.WAITING}
    return "error" in facts or Recorded(str(facts["recorded"])).speaks_against_it


@contextmanager
def _no_errors() -> Generator[None]:
    """Drop what an observer raises, because it decides nothing about an attempt."""
    with suppress(Exception):
        yield


@final
class BodyTelemetry(BodyObserver):
    """What bodies print and log, with the ids of their attempt; and what they measure."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    @_no_errors()
    def output(self, call: BodyCall | None, stream: str, line: str) -> None:
        """One line that was printed."""
        level = logging.INFO if stream == "stdout" else logging.WARNING
        write(TASK_LOGGER, level, line, _ids(call) | {"stream": stream})

    @_no_errors()
    def logged(self, call: BodyCall | None, level: int, logger: str, text: str) -> None:
        """One record, at its own level."""
        write(TASK_LOGGER, level, text, _ids(call) | {"task_logger": logger})

    @_no_errors()
    def sampled(
        self, call: BodyCall, metric: str, name: str, value: float, labels: Mapping[str, str]
    ) -> None:
        """Under the name and labels that the recorder made."""
        del call
        if metric == "gauge":
            self._metrics.gauge(name, labels, value)
        else:
            self._metrics.observe(name, labels, value)

    @_no_errors()
    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """How far a body is."""
        write(TASK_LOGGER, logging.INFO, message, _ids(call) | {"progress": dict(facts)})

    @_no_errors()
    def executor(self, slot: int, event: str, facts: Mapping[str, object]) -> None:
        """An executor comes or goes."""
        level = logging.INFO if event == "executor started" else logging.WARNING
        write(EXECUTOR_LOGGER, level, event, {"slot": slot, **facts})
        self._metrics.count(EXECUTOR_EVENTS, {"event": event.removeprefix("executor ")})


def warn_of_disk(total: int, free: int) -> None:
    """Polling stops for lack of room."""
    facts = {"free_bytes": free, "total_bytes": total}
    write(WORKER_LOGGER, logging.WARNING, "disk nearly full; polling no workspace tasks", facts)


def warn_of_service(name: str, error: str) -> None:
    """A service does not answer before anything was polled."""
    write(WORKER_LOGGER, logging.WARNING, f"circuit open: {name}", {"error": error})


def _traceback(error: Exception) -> str:
    """The task function's own traceback where there is one.

    Perago's own lines are shown of an error without a code alone: a code and its text say what
    happened, and an operator who reads lines of Perago looks for a mistake there.
    """
    if notes := [note for note in getattr(error, "__notes__", ()) if note]:
        return "\n".join(notes)
    if isinstance(error, ServiceError | PeragoError) and error.code != PeragoError.code:
        return ""
    return "".join(traceback.format_exception(error))


def _ids(call: BodyCall | None) -> dict[str, object]:
    return {} if call is None else ids_of(call.attempt, call.execution_id)
