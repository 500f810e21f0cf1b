"""How listings are divided: ranges of keys, windows of wanted paths, and the files of a Spark job.

`cut_keys` cuts a listing into ranges that are listed apart; every key is in exactly one range
whatever the cuts are, and only the balance depends on them. `windows` covers wanted paths with few
questions. `JobFiles` tells the files that a Spark job committed from those of its lost tries,
`is_job_litter` and `is_foreign_write` judge what else a Spark task wrote.
"""

import re
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perago.domain.paths import is_reserved_object, listing_prefix

LAST_CHARACTER = "\U0010ffff"  # appended to a beginning it is behind every key that begins so
# One question to the server finds one beginning, and no job starts before the last. Fewer make the
# ranges uneven where many keys begin alike; wrong they never are. Keys that begin with hexadecimal
# digits take 289 questions for their first two, which make 256 ranges.
QUESTIONS_MAX = 400

NextKey = Callable[[str], Awaitable[str | None]]
"""The first key of the listing after a text, or None."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys greater than `after`, up to `upto`; None has no end."""

    after: str
    upto: str | None

    def holds(self, key: str) -> bool:
        """Whether a key of the listing is in this range."""
        return key > self.after and (self.upto is None or key <= self.upto)


async def cut_keys(next_key: NextKey, prefix: str, wanted: int) -> list[KeyRange]:
    """Follow the keys character by character until there are enough beginnings."""
    beginnings, asked = [prefix], 0
    while len(beginnings) < wanted and asked < QUESTIONS_MAX:
        deeper: list[str] = []
        for beginning in beginnings:
            children, questions = await _children(next_key, beginning)
            asked += questions
            deeper.extend(children)
            if asked >= QUESTIONS_MAX:
                break
        if len(deeper) < len(beginnings):  # keys that end here, or the questions ran out
            break
        beginnings = deeper
    cuts = sorted(beginnings)[1:]
    return [KeyRange(after, upto) for after, upto in zip(["", *cuts], [*cuts, None], strict=True)]


async def _children(next_key: NextKey, beginning: str) -> tuple[list[str], int]:
    """The distinct beginnings that are one character longer."""
    found: list[str] = []
    after, asked = beginning, 0
    while asked < QUESTIONS_MAX:
        key = await next_key(after)
        asked += 1
        if key is None or not key.startswith(beginning):
            break
        found.append(key[: len(beginning) + 1])
        after = found[-1] + LAST_CHARACTER
    return found, asked


@dataclass(frozen=True, slots=True)
class ListingWindow:
    """One question: entries with `prefix` after `after`, up to `last`, `amount` at a time."""

    prefix: str
    after: str
    last: str
    amount: int


def windows(
    tree: Sequence[str], wanted: Sequence[str], *, amount_max: int
) -> tuple[ListingWindow, ...]:
    """Cover the wanted paths, both sequences sorted; a lone path is asked for by its name."""
    found: list[ListingWindow] = []
    start = 0
    while start < len(wanted):
        first = bisect_left(tree, wanted[start])
        end = start
        while end < len(wanted) and bisect_left(tree, wanted[end]) - first < amount_max:
            end += 1
        last = wanted[end - 1]
        if end - start == 1:
            found.append(ListingWindow(prefix=last, after="", last=last, amount=1))
        else:
            amount = bisect_left(tree, last) - first + 1
            before = tree[first - 1] if first else ""
            found.append(ListingWindow(prefix="", after=before, last=last, amount=amount))
        start = end
    return tuple(found)


# With an underscore, so that Spark and other readers of a table take it for no data.
MANIFEST_PREFIX = "_perago_committed-"
# The names that PrivateBranchCommitProtocol.java writes; any other file belongs to no job of ours.
_TRIED = re.compile(r"part-\d{5,}-(?P<job>[0-9a-f]{8}-[0-9a-f-]{27})-try\d+[.-]")


def manifest_job(path: str) -> str | None:
    """The job whose manifest this object is, or None."""
    name = path.rpartition("/")[2]
    return name.removeprefix(MANIFEST_PREFIX) if name.startswith(MANIFEST_PREFIX) else None


def writing_job(path: str) -> str | None:
    """The job that wrote this file under our protocol, or None for all other files."""
    found = _TRIED.search(path.rpartition("/")[2])
    return None if found is None else found["job"]


@dataclass(slots=True)
class JobFiles:
    """Files and manifests of the jobs of one body."""

    files: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    manifests: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, path: str) -> bool:
        """Remember a new object of a job; False when it is none."""
        job = manifest_job(path)
        if job is not None:
            self.manifests[job] = path
            return True
        job = writing_job(path)
        if job is not None:
            self.files.setdefault(job, []).append(path)
            return True
        return False

    def losers(self, committed: Mapping[str, Collection[str]]) -> Iterator[str]:
        """Files that no manifest names; a job without one was never committed."""
        for job, paths in self.files.items():
            names = set(committed.get(job, ()))
            yield from (path for path in paths if path not in names)


def parse_manifest(content: bytes) -> frozenset[str]:
    """The object paths of a manifest."""
    return frozenset(line for line in content.decode("utf-8").split("\n") if line)


# Of the commit protocols of Hadoop, S3A, Spark and Databricks. They leave these behind when a job
# dies, and readers of a table skip them.
LITTER_NAMES = frozenset({"_SUCCESS", "_temporary", "_started"})
LITTER_SEGMENT_PREFIXES = ("__magic", ".spark-staging-", "_temporary-", "_started_", "_committed_")


def is_job_litter(path: str) -> bool:
    """Whether an object is left over from a commit protocol and no part of any table.

    Directory markers (a trailing slash), `_SUCCESS`, task directories, Hadoop's hidden `.crc`
    files. A `_delta_log` with its own checksums is part of a table.
    """
    if path.endswith("/"):
        return True
    segments = path.split("/")
    name = segments[-1]
    if name.startswith(".") and name.endswith(".crc"):
        return True
    return any(
        segment in LITTER_NAMES or segment.startswith(LITTER_SEGMENT_PREFIXES)
        for segment in segments
    )


def is_foreign_write(path: str, prefix: str) -> bool:
    """Whether a Spark task may not write there: outside the prefix, or a reserved path."""
    return is_reserved_object(path) or not path.startswith(listing_prefix(prefix))
