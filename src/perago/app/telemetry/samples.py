"""Who takes samples: the registry of this process, and a collector when there is one."""

from collections.abc import Mapping, Sequence
from typing import Protocol, final


class Samples(Protocol):
    """Takes samples by name and labels."""

    def count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Add to a counter."""
        ...

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Set a gauge."""
        ...

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Add one sample to a distribution."""
        ...


@final
class SharedSamples(Samples):
    """Tells each."""

    def __init__(self, takers: Sequence[Samples]) -> None:
        self._takers = takers

    def count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Tell each."""
        for each in self._takers:
            each.count(name, labels, by)

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Tell each."""
        for each in self._takers:
            each.gauge(name, labels, value)

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Tell each."""
        for each in self._takers:
            each.observe(name, labels, value)
