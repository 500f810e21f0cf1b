"""Translates what real servers say of times into the time of a transcript."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from tests.simulation.scene import RESPONSE_SECONDS
from tests.simulation.steering import MICROSECONDS, START, SteeredClock

from perago.adapters.system import SystemClock
from perago.domain.attempt import AttemptRecord, AttemptSnapshot, WorkflowSnapshot
from perago.domain.lakefs import CommitRecord, FirstParentWalk
from perago.domain.outcome import Merged
from perago.ports.conductor import WorkflowRecord

Answer = TypeVar("Answer")

MILLISECONDS = 1_000
START_SECONDS = int(START.timestamp())


@dataclass
class ServedTime:
    """Which moments of the servers' clock belong to which moment of the transcript."""

    clock: SteeredClock
    began: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    commits: dict[str, int] = field(default_factory=dict[str, int])
    reruns: dict[str, list[tuple[int, int]]] = field(
        default_factory=dict[str, list[tuple[int, int]]]
    )

    async def move_to(self, moment: int) -> None:
        """The next moment; no two of them share a millisecond of the servers."""
        await asyncio.sleep(2 / MILLISECONDS)
        self.clock.move_to(moment)
        self.began.append((_now_ms(), self.clock.elapsed))

    def made(self, result: object) -> None:
        """A commit was made just now."""
        commit = result.commit if isinstance(result, Merged) else result
        if isinstance(commit, str):
            self.commits.setdefault(commit, self.clock.seconds_since_epoch())

    def translated(self, answer: Answer) -> Answer:
        """An answer with the transcript's times and leases in place of the servers'."""
        match answer:
            case AttemptRecord():
                snapshot = self._row(answer.snapshot)
                lease = RESPONSE_SECONDS
                ended_at = self._moment(answer.ended_at)
                found: object = replace(
                    answer, snapshot=snapshot, response_timeout_seconds=lease, ended_at=ended_at
                )
            case WorkflowSnapshot():
                rows = tuple(self._row(row) for row in answer.tasks)
                found = replace(answer, tasks=rows, ended_at=self._moment(answer.ended_at))
            case WorkflowRecord():
                found = replace(answer, attempts=self.translated(answer.attempts))
            case CommitRecord():
                made = self.commits.get(answer.commit, START_SECONDS)
                found = replace(answer, created_at=made)
            case FirstParentWalk():
                found = replace(answer, commits=self.translated(answer.commits))
            case _:
                found = self._each(answer)
        return cast("Answer", found)

    def _each(self, answer: object) -> object:
        if type(answer) is not tuple:  # an entry of a listing is a named one, and stays as it is
            return answer
        return tuple(self.translated(part) for part in cast("tuple[object, ...]", answer))

    def _row(self, row: AttemptSnapshot) -> AttemptSnapshot:
        scheduled = self._scheduled(row.task_id, row.scheduled_time)
        return replace(row, scheduled_time=scheduled, start_time=self._moment(row.start_time))

    def _scheduled(self, task_id: str, served_ms: int) -> int:
        """A row that is run again within one moment of the transcript is scheduled later."""
        known = self.reruns.setdefault(task_id, [])
        for served, moment in known:
            if served == served_ms:
                return moment
        moment = max(self._moment(served_ms), known[-1][1] + 1 if known else 0)
        known.append((served_ms, moment))
        return moment

    def _moment(self, served_ms: int) -> int:
        if not served_ms:
            return 0
        before = [elapsed for began, elapsed in self.began if began <= served_ms]
        elapsed = before[-1] if before else 0
        return START_SECONDS * MILLISECONDS + elapsed * MILLISECONDS // MICROSECONDS


def _now_ms() -> int:
    return int(SystemClock().now().timestamp() * MILLISECONDS)
