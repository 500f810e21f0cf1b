"""Very many rows to files: batches dealt out to fillers beside this process.

A filler is a light process with nothing but a path to the database. What one does not bring is
done here, where a failure has its reason; so fillers are never a reason to fail. This process
keeps its hands free meanwhile: it prepares batches, and talks to the server.
"""

import contextlib
import marshal
import os
import sqlite3
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from typing import cast, final

from perago.adapters.local import row_filler
from perago.adapters.local.content_keeping import content_key
from perago.adapters.local.row_filler import Report, fill_rows, framed
from perago.ports.object_transport import Fetched, FetchOrder

BATCH = 500
FILLERS_MAX = 4
_FILES_EACH = 2_500
_ENDING_SECONDS = 5.0
_NO_ANSWER = (OSError, EOFError, ValueError, TypeError)
_Asked = tuple[list[str | None], list[str], int]


def fillers_worth(files: int) -> int:
    """How many processes fill so many files: starting one costs as much as a thousand or two."""
    worth = min(len(os.sched_getaffinity(0)), FILLERS_MAX, files // _FILES_EACH)
    return worth if worth > 1 else 0


@final
class RowFilling:
    """One list of files under way; what was done is known even after a failure."""

    def __init__(
        self,
        database: Path,
        orders: Sequence[FetchOrder],
        given_up: Event,
        *,
        fillers: int,
        program: str = row_filler.__file__,
    ) -> None:
        self.fetched: list[Fetched | None] = [None] * len(orders)
        self.stale: list[str] = []
        self.damaged: list[str] = []
        self._database = database
        self._orders = orders
        self._given_up = given_up
        self._fillers = fillers
        self._program = program
        self._left = deque(range(0, len(orders), BATCH))
        self._lost: list[int] = []

    def run(self, connection: sqlite3.Connection, *, used_before: int) -> None:
        """Fill all files whose content is here; the disk's and the database's errors raise."""
        beside = [Thread(target=self._beside, args=(used_before,)) for _ in range(self._fillers)]
        for thread in beside:
            thread.start()
        for thread in beside:
            thread.join()
        for lost in self._lost:
            for order in self._batch(lost):
                order.target.unlink(missing_ok=True)  # half a batch of a filler that ended
        self._left.extend(self._lost)
        while (start := self._next()) is not None:
            self._note(start, fill_rows(connection, *self._asked(start, used_before)))

    def _beside(self, used_before: int) -> None:
        with contextlib.suppress(OSError), _Filler(self._program, self._database) as filler:
            while (start := self._next()) is not None:
                try:
                    report = filler.fill(self._asked(start, used_before))
                except _NO_ANSWER:
                    self._lost.append(start)
                    return
                self._note(start, report)

    def _next(self) -> int | None:
        try:
            return None if self._given_up.is_set() else self._left.popleft()
        except IndexError:
            return None

    def _batch(self, start: int) -> Sequence[FetchOrder]:
        return self._orders[start : start + BATCH]

    def _asked(self, start: int, used_before: int) -> _Asked:
        batch = self._batch(start)
        keys = [content_key(order.entry) for order in batch]
        return keys, [str(order.where) for order in batch], used_before

    def _note(self, start: int, report: Report) -> None:
        placed, stale, damaged = report
        self.fetched[start : start + len(placed)] = [
            one and Fetched(order, one[0], one[1])
            for order, one in zip(self._batch(start), placed, strict=True)
        ]
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

    def fill(self, asked: _Asked) -> Report:
        """Let it fill one batch; one of _NO_ANSWER when it could not."""
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None
        assert answers is not None
        questions.write(framed(marshal.dumps(asked)))
        questions.flush()
        body = answers.read(int(answers.readline()))
        return cast("Report", marshal.loads(body))  # noqa: S302 - of a process of ours
