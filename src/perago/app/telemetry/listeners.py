"""The events of an attempt and of its task function, and who reads them: log, metrics, spans.

An attempt emits events through its progress port, which is `AttemptEvents` in a worker and in the
kit: it adds the attempt, the time and the requests, and hands each event to every reader. A reader
is an `AttemptListener`; docs/how-to/send-events.md shows how to add one. What it raises is dropped,
because no reader decides. A `BodyObserver` hears what a task function says.

`AttemptLog` writes the events to Python's logging, without knowing of files and formats: `write`
makes a record, `facts_of` the ids in it. `SeenRepositories` remembers where attempts worked, for
garbage collection; `WaitingAttempts` which of them wait, for the probes.
"""

import logging
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast, final

from perago.app.attempt.complete import Recorded
from perago.app.attempt.context import Attempt
from perago.app.attempt.ending import HANDED_BACK
from perago.app.attempt.patience import CONDUCTOR
from perago.domain.attempt import AttemptSnapshot, ExecutionId
from perago.domain.errors import PeragoError
from perago.domain.lakefs import RepositoryId
from perago.ports.errors import ServiceError
from perago.ports.system import Clock
from perago.ports.task_body import BodyCall
from perago.ports.telemetry import count_requests
from perago.ports.workspace import Phase, Progress

LOGGER = logging.getLogger("perago.attempt")
WORKER_LOGGER = logging.getLogger("perago.worker")


class AttemptListener(Protocol):
    """Reads the events of attempts."""

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """One step ended, so many seconds after the one before; `ended`, after the poll."""
        ...


@final
class AttemptEvents(Progress):
    """The progress port of one attempt, for several readers."""

    def __init__(
        self, attempt: Attempt, listeners: Sequence[AttemptListener], clock: Clock
    ) -> None:
        self._attempt = attempt
        self._listeners = listeners
        self._clock = clock
        self._begun = self._last = clock.monotonic()
        self._requests = count_requests()
        self._requests_before = 0
        self._level: object = None
        self._published: object = None
        self.task_log_line = ""

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        """Add what every reader needs, and hand the event to each."""
        now = self._clock.monotonic()
        seconds = now - (self._begun if phase is Phase.ENDED else self._last)
        if phase is not Phase.LOST:  # it happens inside of a step, whose time goes on
            self._last = now
        if phase is Phase.POLICY:
            self._level = facts.get("level")
        elif phase is Phase.PUBLISHED:
            self._published = facts.get("ref")
        elif phase is Phase.ENDED:
            self._write_task_log_line(facts, seconds)
        sent, self._requests_before = (
            self._requests.sent - self._requests_before,
            self._requests.sent,
        )
        every = {**facts, "requests": sent}
        for each in self._listeners:
            try:  # not `suppress`, which costs as much as a listener
                each.phase(self._attempt, phase, every, seconds)
            except Exception:  # noqa: BLE001, S112 - a listener decides nothing
                continue

    def _write_task_log_line(self, facts: Mapping[str, object], seconds: float) -> None:
        """The line for the task's log in Conductor.

        Tasks without a workspace leave none: it would be one more request of an attempt that sends
        a few in all. A finished run leaves one, because it has published. A hand back leaves one,
        because the row forgets its reason with the next end.
        """
        is_back = facts["status"] == HANDED_BACK
        published = self._attempt.task.has_workspace or self._attempt.leftovers.decided
        if not (published or is_back):
            return
        parts = {
            "execution": self._attempt.execution_id,
            "status": facts["status"],
            "level": self._level,
            "published": self._published,
            "recorded": facts["recorded"],
            "traceparent": self._attempt.traceparent,
            "worker": self._attempt.settings.worker_id,
            "seconds": f"{seconds:.3f}",
            "requests": self._requests.sent,
            "reason": facts.get("reason") if is_back else None,  # the last, because it has blanks
        }
        line = " ".join(f"{name}={value}" for name, value in parts.items() if value is not None)
        self.task_log_line = f"perago {line}"


def facts_of(attempt: Attempt) -> dict[str, object]:
    """The ids by which one attempt is found in every service that knows it."""
    trace = {} if attempt.traceparent is None else {"traceparent": attempt.traceparent}
    return ids_of(attempt.row, attempt.execution_id) | trace


def ids_of(row: AttemptSnapshot, execution_id: ExecutionId) -> dict[str, object]:
    """The ids of an attempt and of one execution of it."""
    return {
        "task_name": row.task_type,
        "workflow_id": row.workflow_id,
        "task_id": row.task_id,
        "reference_name": row.reference_name,
        "retry_count": row.retry_count,
        "execution_id": execution_id,
    }


def write(logger: logging.Logger, level: int, event: str, facts: Mapping[str, object]) -> None:
    """Write one line: the event, and its facts under `perago`, which our formatter reads.

    `logger.log` would look for the line of code and the thread, which our formatters do not print
    and which cost more to find than the line costs to write.
    """
    if logger.isEnabledFor(level):
        now = time.time()  # noqa: TID251 - as the library's records
        record = logging.LogRecord.__new__(logging.LogRecord)
        record.__dict__ = {
            **_LEFT_AS_THEY_ARE,
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
_LEFT_AS_THEY_ARE = vars(logging.makeLogRecord({}))


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


def warn_of_disk(total: int, free: int) -> None:
    """Polling stops for lack of room."""
    facts = {"free_bytes": free, "total_bytes": total}
    write(WORKER_LOGGER, logging.WARNING, "disk nearly full; polling no workspace tasks", facts)


def warn_of_service(name: str, error: str) -> None:
    """A service does not answer before anything was polled."""
    write(WORKER_LOGGER, logging.WARNING, f"circuit open: {name}", {"error": error})


class BodyObserver:
    """What task functions print, log and measure; a listener overrides the methods that it needs.

    `call` is None for what an executor prints between two calls.
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
class WaitingAttempts(AttemptListener):
    """Which attempts wait for which service now, as `/readyz` shows it."""

    def __init__(self) -> None:
        self._services: dict[str, str] = {}

    def lines(self) -> list[str]:
        """One line for each service that attempts wait for."""
        services = list(self._services.values())
        return [
            f"attempts that wait for {service}: {services.count(service)}"
            for service in sorted(set(services))
        ]

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """A wait that lasts, or its end."""
        del seconds
        if phase is Phase.WAITING:
            self._services[attempt.execution_id] = str(facts["service"])
        elif phase in {Phase.WAITED, Phase.ENDED}:
            self._services.pop(attempt.execution_id, None)


@final
class WaitLines(AttemptListener):
    """Logs waits in Conductor, so that the page of the task shows what it waits for.

    A Conductor that is away takes no line, so its wait is logged when it is over. Short waits are
    not logged there: each line is one more request.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """A wait that lasts, or its end."""
        del seconds
        who = f"perago execution={attempt.execution_id}"
        if phase is Phase.WAITING and facts["service"] != CONDUCTOR:
            self._log(f"{who} waits for {facts['service']}: {facts['error']}")
        elif phase is Phase.WAITED and facts["lasted"]:
            self._log(f"{who} waited {facts['waited_seconds']} s for {facts['service']}")


@final
class SeenRepositories(AttemptListener):
    """Remembers names from the inputs of attempts that got as far as a policy."""

    def __init__(self) -> None:
        self.names: set[RepositoryId] = set()

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """The input is valid once there is a policy."""
        del seconds
        if phase is Phase.POLICY:
            # A built-in task has no workspace in its input, and names the repository.
            given = facts if "repository" in facts else attempt.record.input_data["workspace"]
            named = cast("Mapping[str, object]", given)
            self.names.add(RepositoryId(str(named["repository"])))
