"""Counters, gauges and histograms of one process, and their text form for Prometheus.

Samples of executors arrive over their channel, so there is one registry and no file. Who records
what is not known here.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, final

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
BYTE_BUCKETS = tuple(float(4**power) for power in range(5, 20))
SERIES_MAX = 10_000
_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")
Labels: TypeAlias = tuple[tuple[str, str], ...]


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
    """The registry; a metric comes to be with its first sample."""

    def __init__(self) -> None:
        self.counters: dict[str, dict[Labels, float]] = {}
        self.gauges: dict[str, dict[Labels, float]] = {}
        self.histograms: dict[str, dict[Labels, Distribution]] = {}
        self._series = 0

    def count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Add to a counter."""
        series = self.counters.setdefault(name, {})
        key = _key(labels)
        if key in series or self._has_room():
            series[key] = series.get(key, 0.0) + by

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Set a gauge."""
        series = self.gauges.setdefault(name, {})
        key = _key(labels)
        if key in series or self._has_room():
            series[key] = value

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Add one sample to a histogram."""
        series = self.histograms.setdefault(name, {})
        key = _key(labels)
        if key not in series:
            if not self._has_room():
                return
            bounds = BYTE_BUCKETS if name.endswith("_bytes") else BUCKETS
            series[key] = Distribution(bounds)
        series[key].add(value)

    def text(self) -> str:
        """The exposition format of Prometheus."""
        return "".join(f"{line}\n" for line in self._lines())

    def _has_room(self) -> bool:
        """A label that never repeats must not take all memory."""
        self._series += 1
        return self._series <= SERIES_MAX

    def _lines(self) -> Iterator[str]:
        for kind, families in (("counter", self.counters), ("gauge", self.gauges)):
            for name, series in sorted(families.items()):
                yield f"# TYPE {_flat(name)} {kind}"
                for labels, value in series.items():
                    yield f"{_flat(name)}{_braced(labels)} {value:g}"
        for name, distributions in sorted(self.histograms.items()):
            yield f"# TYPE {_flat(name)} histogram"
            for labels, each in distributions.items():
                yield from _histogram_lines(_flat(name), labels, each)


def _histogram_lines(name: str, labels: Labels, each: Distribution) -> Iterator[str]:
    below = 0
    for bound, count in zip((*each.bounds, float("inf")), each.counts, strict=True):
        below += count
        edge = "+Inf" if bound == float("inf") else f"{bound:g}"
        yield f"{name}_bucket{_braced((*labels, ('le', edge)))} {below}"
    yield f"{name}_sum{_braced(labels)} {each.total:g}"
    yield f"{name}_count{_braced(labels)} {each.number}"


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _flat(name: str) -> str:
    return _UNSAFE.sub("_", name)


def _braced(labels: Labels) -> str:
    if not labels:
        return ""
    inside = ",".join(f'{_flat(name)}="{_quoted(value)}"' for name, value in labels)
    return f"{{{inside}}}"


def _quoted(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
