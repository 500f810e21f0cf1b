"""Directories of attempts on the local disk: one for each execution, marked with its owner."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from perago.domain.attempt import AttemptSnapshot, ExecutionId
from perago.domain.retention import Owner


@dataclass(frozen=True, slots=True)
class AttemptMarker:
    """Who works in a directory; stored as `.perago-attempt.json` in it."""

    attempt: AttemptSnapshot
    execution_id: ExecutionId
    owner_worker_id: str
    staging_branch: str | None = None
    repository: str | None = None


@dataclass(frozen=True, slots=True)
class Leftover:
    """A directory that nobody is known to work in.

    `error` says why nothing could be told of it; such a one is reported and never removed.
    """

    path: Path
    marker: AttemptMarker | None
    age_seconds: float
    owner: Owner = Owner.GONE
    error: str | None = None


class AttemptDirectories(Protocol):
    """Directories of attempts below one root.

    Laws (tests/contract/test_attempt_directory.py has one test for each, by name):

    A1 create_is_exclusive: a fresh, empty directory with its marker; a second create of the
       same execution raises ExistsError.
    A2 directories_are_private: only the owner may read them (mode 0700).
    A3 marker_reads_back: the marker says attempt, execution and owner.
    A4 staging_is_recorded: a recorded staging branch survives in the marker.
    A5 check_finds_a_vanished_directory: a removed directory raises WorkspaceLostError.
    A6 check_finds_a_foreign_directory: a replaced or removed marker raises WorkspaceLostError.
    A7 remove_is_idempotent: removing an absent directory succeeds.
    A8 remove_refuses_what_is_not_ours: a directory without marker raises WorkspaceLostError and
       stays.
    A9 live_owners_are_no_leftovers: a directory whose owner lives is never a leftover.
    A10 dead_owners_are_leftovers: the directory of a dead process is one.
    A11 names_are_safe: ids with slashes, dots and spaces stay below the root.
    A12 an_owner_without_a_lock_is_unknown: a directory of 0.6.1, which held no lock, is a leftover
       whose owner is unknown while any process has its number, else gone.
    A13 one_directory_stops_no_other: what cannot be read of one directory is the error of that
       leftover, and the others are found.
    """

    async def create(self, marker: AttemptMarker) -> Path:
        """Create the directory of one execution."""
        ...

    async def record_staging(self, directory: Path, repository: str, branch: str) -> None:
        """Write the staging branch's name into the marker, before the branch is created."""
        ...

    async def check(self, directory: Path, execution_id: ExecutionId) -> None:
        """Raise WorkspaceLostError unless this directory is still that execution's."""
        ...

    async def remove(self, directory: Path) -> None:
        """Remove a directory with all it holds."""
        ...

    async def leftovers(self, *, older_than_seconds: float) -> Sequence[Leftover]:
        """Directories that nobody is known to work in, oldest first."""
        ...
