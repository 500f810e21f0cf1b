"""Counters, gauges and histograms of one process, their text for Prometheus, and what is counted.

Executors send their samples over their channel, so there is one registry and no file. Authors
choose names and labels, and Prometheus refuses a whole page for one bad line; so `Metrics` makes
names acceptable. `AttemptMetrics` reads the events of attempts. `BodyTelemetry` hears what task
functions measure, print and log, and adds the ids of their attempt.
"""

import logging
import re
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias, cast, final

from perago.app.attempt.context import Attempt
from perago.app.attempt.ending import HANDED_BACK, cause_of
from perago.app.telemetry.listeners import AttemptListener, BodyObserver, ids_of, write
from perago.domain.errors import OutcomeUnknownAtDeadlineError, StaleAttemptError
from perago.ports.task_body import BodyCall
from perago.ports.telemetry import Telemetry, buckets_of
from perago.ports.workspace import Phase

# An author's label that never repeats (a file name, an id) would take all memory. What comes above
# is dropped; series that are known go on counting. 10,000 histograms are a page of 15 MB that takes
# 0.3 s to write, in which the worker does nothing else. The same number bounds names, names that
# were refused, and the caches of both.
SERIES_MAX = 10_000
# A histogram `x` owns these names: a counter `x_count` on the same page would be a second one.
HISTOGRAM_PARTS = ("", "_bucket", "_sum", "_count")
LOGGER = logging.getLogger("perago.worker")
TASK_LOGGER = logging.getLogger("perago.task")
EXECUTOR_LOGGER = logging.getLogger("perago.executor")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")  # no other character may stand in a name or label
Labels: TypeAlias = tuple[tuple[str, str], ...]

# Names of what a worker counts of itself.
ATTEMPT_SECONDS = "runtime.task_attempt_duration_seconds"
IO_SECONDS = "runtime.workspace_io_duration_seconds"
IO_BYTES = "runtime.workspace_io_bytes"
BUSY_SLOTS = "runtime.busy_slots"
ATTEMPTS = "runtime.task_attempts_total"
QUEUE_WAIT = "runtime.queue_wait_seconds"
FENCES = "runtime.attempt_fence_verdicts_total"
PUBLICATIONS = "runtime.publications_total"
UNKNOWN_OUTCOMES = "runtime.unknown_outcomes_total"
CACHE_HITS = "runtime.cache_hits_total"
LOST_LEASES = "runtime.lost_leases_total"
HAND_BACKS = "runtime.hand_backs_total"
SERVICE_WAIT = "runtime.service_wait_seconds"
EXECUTOR_EVENTS = "runtime.executor_events_total"
# The values of the label `operation` in 0.6.1, whose dashboards go on working.
OPERATIONS = {Phase.MATERIALISED: "download", Phase.STAGED: "upload", Phase.PUBLISHED: "publish"}
COUNTED = frozenset(
    {Phase.STARTED, Phase.FENCED, Phase.LOST, Phase.WAITED, Phase.ENDED, *OPERATIONS}
)


@dataclass(slots=True)
class Distribution:
    """How samples of one series are spread."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list[int])
    total: float = 0.0
    number: int = 0

    def __post_init__(self) -> None:
        """One count a bucket, and one for what is above all."""
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Take one sample."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
        self.number += 1


@final
class Metrics:
    """The registry; a metric comes to be with its first sample, under its name for Prometheus.

    `a.b` and `a_b` are one name there, for metrics and for labels. The first metric of a name has
    it; of two labels of one sample that have one name, the first in order counts. `telemetry` gets
    every sample as it came.
    """

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self._telemetry = telemetry
        self.counters: dict[str, dict[Labels, float]] = {}
        self.gauges: dict[str, dict[Labels, float]] = {}
        self.histograms: dict[str, dict[Labels, Distribution]] = {}
        self._series = 0
        self._families: dict[str, str] = {}
        self._refused: set[str] = set()

    def count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Add to a counter."""
        if self._telemetry is not None:
            self._telemetry.count(name, labels, by)
        if (family := self._family(name, "counter")) is None:
            return
        series, key = self.counters.setdefault(family, {}), _key(labels)
        if key in series or self._has_room():
            series[key] = series.get(key, 0.0) + by

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Set a gauge."""
        if self._telemetry is not None:
            self._telemetry.gauge(name, labels, value)
        if (family := self._family(name, "gauge")) is None:
            return
        series, key = self.gauges.setdefault(family, {}), _key(labels)
        if key in series or self._has_room():
            series[key] = value

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Add one sample to a histogram."""
        if self._telemetry is not None:
            self._telemetry.observe(name, labels, value)
        if (family := self._family(name, "histogram")) is None:
            return
        series, key = self.histograms.setdefault(family, {}), _key(labels)
        if key not in series and self._has_room():
            series[key] = Distribution(buckets_of(name))
        if key in series:
            series[key].add(value)

    def text(self) -> str:
        """The exposition format of Prometheus."""
        return "".join(f"{line}\n" for line in self._lines())

    def _family(self, name: str, kind: str) -> str | None:
        """The name for Prometheus; None when another metric has it, or there are too many names."""
        family = _flat(name)
        owner = f"{kind} {family}"
        parts = HISTOGRAM_PARTS if kind == "histogram" else ("",)
        lines = [family + part for part in parts]
        if self._families.get(family) == owner:
            return family
        is_taken = not self._families.keys().isdisjoint(lines)
        # A task function may also make names without end, as it may make labels.
        if not is_taken and len(self._families) < SERIES_MAX:
            self._families.update(dict.fromkeys(lines, owner))
            return family
        # Once for each name: a task function may count in a loop.
        if owner not in self._refused and len(self._refused) < SERIES_MAX:
            self._refused.add(owner)
            why = "another metric has the name" if is_taken else "there are too many names"
            LOGGER.warning("metric %s (a %s) is dropped: %s", name, kind, why)
        return None

    def _has_room(self) -> bool:
        """A label that never repeats must not take all memory."""
        self._series += 1
        return self._series <= SERIES_MAX

    def _lines(self) -> Iterator[str]:
        for kind, families in (("counter", self.counters), ("gauge", self.gauges)):
            for name, series in sorted(families.items()):
                yield f"# TYPE {name} {kind}"
                for labels, value in series.items():
                    yield f"{name}{_braced(labels)} {_number(value)}"
        for name, distributions in sorted(self.histograms.items()):
            yield f"# TYPE {name} histogram"
            for labels, each in distributions.items():
                yield from _histogram_lines(name, labels, each)


@final
class AttemptMetrics(AttemptListener):
    """Hears attempts."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def phase(
        self, attempt: Attempt, phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        """Durations and bytes of moves, verdicts, effects, ends."""
        if phase not in COUNTED:
            return
        task = {"task_name": attempt.task.name}
        if phase in OPERATIONS:
            self._moved(task, phase, facts, seconds)
        elif phase is Phase.STARTED:
            self._metrics.observe(QUEUE_WAIT, task, attempt.record.queue_wait_ms / 1000)
        elif phase is Phase.FENCED:
            self._metrics.count(FENCES, task | {"verdict": "current"})
        elif phase is Phase.LOST:
            self._metrics.count(LOST_LEASES, task | {"field": str(facts["field"])})
        elif phase is Phase.WAITED:
            labels = task | {"service": str(facts["service"])}
            self._metrics.observe(SERVICE_WAIT, labels, cast("float", facts["waited_seconds"]))
        else:
            self._ended(attempt, facts, seconds)

    def _moved(
        self, task: Mapping[str, str], phase: Phase, facts: Mapping[str, object], seconds: float
    ) -> None:
        metrics, labels = self._metrics, {**task, "operation": OPERATIONS[phase]}
        metrics.observe(IO_SECONDS, labels, seconds)
        if isinstance(moved := facts.get("bytes"), int):
            metrics.observe(IO_BYTES, labels, moved)
        if phase is Phase.MATERIALISED and isinstance(reused := facts.get("reused"), int):
            metrics.count(CACHE_HITS, task, reused)
        if phase is Phase.PUBLISHED:
            metrics.count(PUBLICATIONS, {**task, "effect": str(facts.get("effect"))})

    def _ended(self, attempt: Attempt, facts: Mapping[str, object], seconds: float) -> None:
        """Outcome and duration."""
        task = {"task_name": attempt.task.name}
        metrics = self._metrics
        spec = attempt.task.metrics
        if spec is None or spec.attempts:
            metrics.observe(ATTEMPT_SECONDS, task, seconds)
        outcome = {key: str(facts.get(key, "")) for key in ("status", "recorded", "code")}
        metrics.count(ATTEMPTS, task | outcome)
        error = facts.get("error")
        if isinstance(error, Exception) and outcome["status"] == HANDED_BACK:
            metrics.count(HAND_BACKS, task | {"cause": str(cause_of(error))})
        if isinstance(error, StaleAttemptError):
            metrics.count(FENCES, task | {"verdict": "stale"})
        if isinstance(error, OutcomeUnknownAtDeadlineError):
            metrics.count(UNKNOWN_OUTCOMES, task)


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


def _ids(call: BodyCall | None) -> dict[str, object]:
    return {} if call is None else ids_of(call.attempt, call.execution_id)


def _histogram_lines(name: str, labels: Labels, each: Distribution) -> Iterator[str]:
    below = 0
    for bound, count in zip((*each.bounds, float("inf")), each.counts, strict=True):
        below += count
        edge = "+Inf" if bound == float("inf") else f"{bound:g}"
        yield f"{name}_bucket{_braced((*labels, ('le', edge)))} {below}"
    yield f"{name}_sum{_braced(labels)} {_number(each.total)}"
    yield f"{name}_count{_braced(labels)} {each.number}"


def _key(labels: Mapping[str, str]) -> Labels:
    flat: dict[str, str] = {}
    for name, value in sorted(labels.items()):
        flat.setdefault(_label(name), value)
    return tuple(sorted(flat.items()))


def _number(value: float) -> str:
    """All digits that count: with six of them a counter above a million stands still."""
    return f"{value:.15g}"


@lru_cache(maxsize=SERIES_MAX)
def _flat(name: str) -> str:
    """Letters, digits and `_`, and no digit first."""
    flat = _UNSAFE.sub("_", name)
    return flat if flat and not flat[0].isdigit() else f"_{flat}"


@lru_cache(maxsize=SERIES_MAX)
def _label(name: str) -> str:
    """As `_flat`; names that Prometheus keeps for itself become others."""
    flat = _flat(name)
    if flat == "le":
        return "exported_le"  # the edge of a bucket; Prometheus itself renames so what it meets
    return f"_{flat.lstrip('_')}" if flat.startswith("__") else flat


def _braced(labels: Labels) -> str:
    if not labels:
        return ""
    inside = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels)
    return f"{{{inside}}}"


def _quoted(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
