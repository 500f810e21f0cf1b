"""Threads that do a list of jobs: as many as the limit allows, each job tried a few times.

After the first failure nobody takes another job and the failure is raised. Knows no HTTP beyond
what a failed try means.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Condition, Event, Thread
from typing import Generic, TypeVar, final

from perago.adapters.transfer.configuration import TransferConfiguration
from perago.adapters.transfer.failures import AnsweredError, BrokenError
from perago.adapters.transfer.pace import Pace
from perago.ports.errors import WorldError
from perago.ports.object_transport import Moved, nobody_counts

Result = TypeVar("Result")

_WORK_UNIT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Job(Generic[Result]):
    """One piece of work: what to do, how large it is, and what giving up means."""

    do: Callable[[], Result]
    size: int
    give_up: Callable[[AnsweredError | BrokenError], WorldError]
    cancel: Callable[[], None] | None = None


@final
class Crew:
    """Runs lists of jobs; the pace is learned over all of them."""

    def __init__(self, configuration: TransferConfiguration, pace: Pace | None = None) -> None:
        self._configuration = configuration
        self._limit = pace or Pace(configuration.requests_concurrent_max)

    @property
    def limit(self) -> int:
        """Requests that may be under way now."""
        return self._limit.limit

    def run(self, jobs: Sequence[Job[Result]], moved: Moved = nobody_counts) -> list[Result]:
        """Do all jobs and give their results in order; `moved` hears of each.

        A job that results in nothing was a part of an object that has not ended.
        """
        shift: _Shift[Result] = _Shift(jobs, self._limit, self._configuration, moved)
        return shift.run()


@final
class _Shift(Generic[Result]):
    """One list of jobs under way. Threads are started as the limit grows and end as it shrinks."""

    def __init__(
        self,
        jobs: Sequence[Job[Result]],
        limit: Pace,
        configuration: TransferConfiguration,
        moved: Moved,
    ) -> None:
        self._moved = moved
        self._jobs = jobs
        self._limit = limit
        self._configuration = configuration
        self._left: Iterator[int] = iter(range(len(jobs)))
        self._untaken = len(jobs)
        self._results: dict[int, Result] = {}
        self._failure: BaseException | None = None
        self._stop = Event()
        self._working = 0
        self._changed = Condition()

    def run(self) -> list[Result]:
        with self._changed:
            self._hire()
            while self._working:
                self._changed.wait()
        if self._failure is not None:
            raise self._failure
        return [self._results[position] for position in range(len(self._jobs))]

    def _hire(self) -> None:
        """Start threads up to the limit; the lock is held."""
        while self._working < min(self._limit.limit, self._working + self._untaken):
            self._working += 1
            Thread(target=self._work, name="perago-transfer", daemon=True).start()

    def _work(self) -> None:
        try:
            while (position := self._next()) is not None:
                job = self._jobs[position]
                started = time.monotonic()
                result = self._done(job)
                self._keep(position, result, job, started)
        except BaseException as failure:  # noqa: BLE001 - raised by the thread that waits
            with self._changed:
                self._failure = self._failure or failure
                self._stop.set()
            for job in self._jobs:
                if job.cancel is not None:
                    job.cancel()
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _next(self) -> int | None:
        with self._changed:
            if self._stop.is_set() or self._working > self._limit.limit:
                return None
            position = next(self._left, None)
            if position is not None:
                self._untaken -= 1
            return position

    def _keep(self, position: int, result: Result, job: Job[Result], started: float) -> None:
        now = time.monotonic()
        with self._changed:
            self._results[position] = result
            work = 1 + job.size / _WORK_UNIT_BYTES
            self._limit.answered(work=work, waited=now - started, now=now)
            self._hire()
        self._moved(job.size, 1 if result else 0)

    def _done(self, job: Job[Result]) -> Result:
        pause = self._configuration.first_pause_seconds
        tries_left = self._configuration.tries_max
        while True:
            tries_left -= 1
            try:
                return job.do()
            except AnsweredError as failure:
                if failure.is_throttling:
                    self._limit.throttled()
                if not failure.is_passing or not tries_left or self._stop.is_set():
                    raise job.give_up(failure) from failure
            except BrokenError as failure:
                if not tries_left or self._stop.is_set():
                    raise job.give_up(failure) from failure
            self._stop.wait(pause)
            pause = min(2 * pause, self._configuration.pause_seconds_max)
