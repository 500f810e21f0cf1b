"""Rows of the transfer benchmark: what was measured, and the cases it was measured on."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median_low

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Case:
    """A workspace of equal files, and the steps that are measured on it."""

    name: str
    files: int
    size: int
    steps: tuple[str, ...]
    subjects: tuple[str, ...]
    store: str = "local"

    @property
    def bytes(self) -> int:
        """The size of the whole workspace."""
        return self.files * self.size


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: the median of some rounds.

    `part` below 1 means that it was extrapolated from that part of the work.
    """

    case: str
    step: str
    rtt_ms: int
    subject: str
    seconds: float
    requests: int | None
    bytes: int
    part: float = 1.0
    rounds: int = 1

    def as_json(self) -> dict[str, object]:
        """Its JSON."""
        return asdict(self)


def middle(rounds: Sequence[Row]) -> Row:
    """The round whose seconds are the median of all."""
    seconds = median_low([row.seconds for row in rounds])
    return replace(next(row for row in rounds if row.seconds == seconds), rounds=len(rounds))


EVERYBODY = ("perago", "bare loop", "lakectl", "lakefs-spec", "perago 0.6.1")
BOTH = ("cold", "stage")
CHECKED = "lakectl, verified"

FULL = (
    Case("1,000 x 64 KiB", 1_000, 64 * KIB, BOTH, EVERYBODY),
    Case("10,000 x 4 KiB", 10_000, 4 * KIB, BOTH, EVERYBODY),
    Case("8 x 256 MiB", 8, 256 * MIB, ("cold",), (*EVERYBODY, "unchecked loop", CHECKED)),
    Case("100,000 x 1 KiB", 100_000, KIB, ("cold", "warm"), ("perago", "cp -r")),
    Case("16 x 16 MiB on s3", 16, 16 * MIB, ("cold",), ("presigned", "api"), "s3"),
)
QUICK = (
    Case("1,000 x 64 KiB", 1_000, 64 * KIB, BOTH, EVERYBODY),
    Case("2,000 x 4 KiB", 2_000, 4 * KIB, ("cold", "stage", "warm"), ("perago", "lakectl")),
    Case(
        "8 x 32 MiB", 8, 32 * MIB, ("cold",), ("perago", "bare loop", "unchecked loop", "lakectl")
    ),
    Case("8 x 16 MiB on s3", 8, 16 * MIB, ("cold",), ("presigned", "api"), "s3"),
)
