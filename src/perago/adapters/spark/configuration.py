"""What an operator says about Spark: master, options, and where jars are kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_MASTER = "local[*]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfiguration:
    """Plain values; None takes the user's cache, or Spark's own default."""

    master: str | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    cache: Path | None = None
