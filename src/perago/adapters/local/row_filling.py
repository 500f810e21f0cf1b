"""Very many rows to files: batches dealt out to this process and to fillers beside it.

A filler is a light process with nothing but a path to the database. What one does not bring is
done again here, where a failure has its reason; so fillers are never a reason to fail.
"""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import cast, final

from perago.adapters.local import row_filler
from perago.adapters.local.row_filler import Placed, Report, Stamp, Wanted, fill_rows

BATCH = 500
FILLED_ALONE_MAX = 5_000
FILLERS_MAX = 3
_ENDING_SECONDS = 5.0
_Answer = tuple[list[tuple[str, list[int]] | None], list[str], list[str]]


def fillers_worth(files: int) -> int:
    """How many processes help with so many files: starting one costs as much as a few thousand."""
    free = len(os.sched_getaffinity(0)) - 1
    return min(free, FILLERS_MAX, files // FILLED_ALONE_MAX)


@final
class RowFilling:
    """One list of files under way; what was done is known even after a failure."""

    def __init__(
        self,
        database: Path,
        wanted: Sequence[Wanted],
        *,
        fillers: int,
        program: str = row_filler.__file__,
    ) -> None:
        self.placed: list[Placed | None] = [None] * len(wanted)
        self.stale: list[str] = []
        self.damaged: list[str] = []
        self._database = database
        self._wanted = wanted
        self._fillers = fillers
        self._program = program
        self._left = deque(range(0, len(wanted), BATCH))
        self._lost: list[int] = []

    def run(self, connection: sqlite3.Connection, *, used_before: int) -> None:
        """Fill all files whose content is here; the disk's and the database's errors raise."""
        beside = [Thread(target=self._beside, args=(used_before,)) for _ in range(self._fillers)]
        for thread in beside:
            thread.start()
        try:
            while (start := self._next()) is not None:
                self._note(start, fill_rows(connection, self._batch(start), used_before))
        finally:
            self._left.clear()
            for thread in beside:
                thread.join()
        for start in self._lost:
            for _, where in self._batch(start):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(where)  # noqa: PTH108 - half a batch of a filler that ended
            self._note(start, fill_rows(connection, self._batch(start), used_before))

    def _beside(self, used_before: int) -> None:
        with contextlib.suppress(OSError), _Filler(self._program, self._database) as filler:
            while (start := self._next()) is not None:
                try:
                    report = filler.fill(self._batch(start), used_before)
                except (OSError, ValueError):
                    self._lost.append(start)
                    return
                self._note(start, report)

    def _next(self) -> int | None:
        try:
            return self._left.popleft()
        except IndexError:
            return None

    def _batch(self, start: int) -> list[Wanted]:
        return list(self._wanted[start : start + BATCH])

    def _note(self, start: int, report: Report) -> None:
        placed, stale, damaged = report
        self.placed[start : start + len(placed)] = placed
        self.stale.extend(stale)
        self.damaged.extend(damaged)


@final
class _Filler:
    """One process; ends with its input, and so with whoever started it."""

    def __init__(self, program: str, database: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - ours
            [sys.executable, "-I", "-S", program, str(database)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
        )

    def __enter__(self) -> "_Filler":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def fill(self, wanted: list[Wanted], used_before: int) -> Report:
        """Let it fill one batch; OSError or ValueError when it could not."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        asked.write(json.dumps([wanted, used_before]).encode() + b"\n")
        asked.flush()
        answer = cast("_Answer", json.loads(answered.readline()))
        placed = [one and (one[0], cast("Stamp", tuple(one[1]))) for one in answer[0]]
        return placed, answer[1], answer[2]
