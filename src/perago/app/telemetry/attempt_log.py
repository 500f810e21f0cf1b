"""The log lines of attempts and task functions.

`AttemptLog` and `BodyLog` write to Python's logging with the ids of the attempt. Files and formats
are not known here.
"""

import logging
import traceback
from collections.abc import Mapping
from typing import final

from perago.app.attempt.complete import Recorded
from perago.app.attempt.context import Attempt
from perago.app.telemetry.listeners import AttemptListener, BodyObserver, facts_of, write
from perago.domain.errors import PeragoError
from perago.ports.errors import ServiceError
from perago.ports.task_body import BodyCall
from perago.ports.workspace import Phase

LOGGER = logging.getLogger("perago.attempt")
WORKER_LOGGER = logging.getLogger("perago.worker")
TASK_LOGGER = logging.getLogger("perago.task")
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


@final
class BodyLog(BodyObserver):
    """What bodies print and log, with the ids of their attempt."""

    def output(self, call: BodyCall | None, stream: str, line: str) -> None:
        """One line that was printed."""
        level = logging.INFO if stream == "stdout" else logging.WARNING
        write(TASK_LOGGER, level, line, _ids(call) | {"stream": stream})

    def logged(self, call: BodyCall | None, level: int, logger: str, text: str) -> None:
        """One record, at its own level."""
        write(TASK_LOGGER, level, text, _ids(call) | {"task_logger": logger})

    def progressed(self, call: BodyCall, message: str, facts: Mapping[str, object]) -> None:
        """How far a body is."""
        write(TASK_LOGGER, logging.INFO, message, _ids(call) | {"progress": dict(facts)})

    def executor(self, slot: int, event: str, facts: Mapping[str, object]) -> None:
        """An executor comes or goes."""
        level = logging.INFO if event == "executor started" else logging.WARNING
        write(EXECUTOR_LOGGER, level, event, {"slot": slot, **facts})


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
    if call is None:
        return {}
    return {
        "task_name": call.task_name,
        "workflow_id": call.attempt.workflow_id,
        "task_id": call.attempt.task_id,
        "reference_name": call.attempt.reference_name,
        "retry_count": call.attempt.retry_count,
        "execution_id": call.execution_id,
    }
