"""Rows of the transfer benchmark: what was measured, and the cases it was measured on."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median_low

KIB, MIB = 1024, 1024 * 1024

# Subjects that read through lakeFS's S3 gateway: the clients people compare a download with.
S5CMD, RCLONE, OBSTORE = "s5cmd", "rclone", "obstore, MD5"
# s5cmd does not look at what it wrote, Perago does; this is s5cmd and then `md5sum` of every file.
S5CMD_CHECKED = "s5cmd, md5sum"
COPY = "cp -r"
RELEASE = "perago 0.6.1"
READERS = ("perago", "lakectl", S5CMD, RCLONE, OBSTORE, RELEASE)


@dataclass(frozen=True, slots=True)
class Case:
    """A workspace of equal files, and the steps that are measured on it.

    With many `repositories`, each of them has such a workspace.
    """

    name: str
    files: int
    size: int
    steps: tuple[str, ...]
    subjects: tuple[str, ...]
    # Those that send nothing: over TLS they would be the same.
    plain_subjects: tuple[str, ...] = ()
    store: str = "local"
    repositories: int = 1

    @property
    def bytes(self) -> int:
        """The size of all workspaces."""
        return self.files * self.size * self.repositories

    @property
    def pieces(self) -> int:
        """What a subject counts that runs out of time: files, or repositories."""
        return self.files if self.repositories == 1 else self.repositories


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: the median of some rounds.

    `part` below 1 means that it was extrapolated from that part of the work. `cpu` is processor
    time of the client: of the step for Perago, of the whole process for the others.
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
    tls: bool = False
    cpu: float | None = None

    def as_json(self) -> dict[str, object]:
        """Its JSON."""
        return asdict(self)


def middle(rounds: Sequence[Row]) -> Row:
    """The round whose seconds are the median of all."""
    seconds = median_low([row.seconds for row in rounds])
    return replace(next(row for row in rounds if row.seconds == seconds), rounds=len(rounds))


BOTH = ("cold", "stage")
ATTEMPTS = ("attempts",)
LARGE = (*READERS, S5CMD_CHECKED)

FULL = (
    Case("1,000 x 64 KiB", 1_000, 64 * KIB, BOTH, READERS),
    Case("10,000 x 4 KiB", 10_000, 4 * KIB, BOTH, READERS),
    Case("200 x 8 MiB", 200, 8 * MIB, ("cold",), LARGE),
    Case("4 x 128 MiB", 4, 128 * MIB, ("cold",), LARGE),
    Case("1 x 1 GiB", 1, 1024 * MIB, ("cold",), LARGE),
    Case("100,000 x 1 KiB", 100_000, KIB, ("cold", "warm"), ("perago",), (COPY,)),
    Case("200 repositories", 10, 64 * KIB, ATTEMPTS, ("perago", RELEASE), repositories=200),
    Case("16 x 16 MiB on s3", 16, 16 * MIB, ("cold",), ("presigned", "api"), store="s3"),
)
QUICK = (
    Case("1,000 x 64 KiB", 1_000, 64 * KIB, BOTH, READERS),
    Case("2,000 x 4 KiB", 2_000, 4 * KIB, ("cold", "stage", "warm"), ("perago", "lakectl")),
    Case("4 x 32 MiB", 4, 32 * MIB, ("cold",), LARGE),
    Case("1 x 256 MiB", 1, 256 * MIB, ("cold",), LARGE),
    Case("20 repositories", 10, 64 * KIB, ATTEMPTS, ("perago", RELEASE), repositories=20),
    Case("8 x 16 MiB on s3", 8, 16 * MIB, ("cold",), ("presigned", "api"), store="s3"),
)
