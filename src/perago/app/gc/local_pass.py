"""One pass over attempt directories whose owners are gone; one failure never stops it.

Which may go is the domain's decision; when a pass runs is the worker's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from perago.domain.retention import Keep, RetentionTimes, judge_attempt_directory
from perago.ports.attempt_directory import AttemptDirectories


@dataclass(frozen=True, slots=True)
class LocalPass:
    """What went, and what could not."""

    removed: Sequence[Path]
    failed: Sequence[tuple[Path, str]]


async def sweep_directories(
    directories: AttemptDirectories, times: RetentionTimes, *, dry_run: bool = False
) -> LocalPass:
    """Remove every directory whose owner is gone, and by age where nobody can tell."""
    removed: list[Path] = []
    failed: list[tuple[Path, str]] = []
    for leftover in await directories.leftovers(older_than_seconds=0):
        if leftover.error is not None:
            failed.append((leftover.path, leftover.error))
            continue
        age = timedelta(seconds=leftover.age_seconds)
        verdict = judge_attempt_directory(leftover.owner, age, times)
        if isinstance(verdict, Keep):
            continue
        try:
            if not dry_run:
                await directories.remove(leftover.path)
        except Exception as error:  # noqa: BLE001 - bodies leave anything; the others go on
            failed.append((leftover.path, str(error) or type(error).__name__))
        else:
            removed.append(leftover.path)
    return LocalPass(removed, failed)
