"""The Spark session of a pipeline step, how wide its jobs are, and the tables of one workspace.

Each step that has frames works in a session of its own on the context of the process. An error that
is not a refusal of ours becomes `UnavailableError`, or `OutcomeUnknownError` where the step writes.
`PipelineState` is the folder with the inventory, the index, the changes and the plan of one
workspace.
"""

import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeVar, final

from perago.adapters.spark.parts import OpenPartWork
from perago.adapters.spark.rows import gathered, with_problem
from perago.adapters.spark.session import SparkConfiguration, first_line, process_session
from perago.domain.errors import PeragoError
from perago.ports.errors import OutcomeUnknownError, ServiceError, UnavailableError
from perago.ports.system import Concurrency

Answer = TypeVar("Answer")
Row = TypeVar("Row")
_groups = itertools.count(1)

# Ranges of a listing differ in weight. With one part a core, the heaviest part is the time of the
# job; each further part costs the start of a task and one more list of ranges.
PARTS_PER_CORE = 2
# A part with fewer rows and bytes than these is not worth the start of its task. Neither number is
# measured. Smaller ones make jobs of many short tasks, larger ones leave cores idle.
ROWS_PER_PART_MIN = 500
BYTES_PER_PART_MIN = 64 * 1024**2
# One transfer has at most so many orders (FETCHED_AT_ONCE), and Spark runs a lost part again from
# its beginning: larger parts lose more.
ROWS_PER_PART = 20_000
BYTES_PER_PART = 8 * 1024**3
OWNER = ".workspace"  # ends the name of the file that says whose tables a folder has
# How wide a join is, is known beforehand; to find it out costs a job for each stage.
OPTIONS = {"spark.sql.adaptive.enabled": "false"}


@final
class PipelineSession:
    """The Spark of one step, the cores it may use, and the work that executors do.

    Its session is for frames, and made when the first one is.
    """

    def __init__(
        self,
        base: Any,  # noqa: ANN401
        cores: int,
        open_work: OpenPartWork,
        given_up: Event,
    ) -> None:
        self.cores = cores
        self._given_up = given_up
        self.open_work = open_work
        self._base = base
        self._session: Any = None

    @property
    def session(self) -> Any:  # noqa: ANN401 - pyspark stays inside this package
        """A session that no option of a body or a report reaches: a few hundred milliseconds."""
        if self._session is None:
            self._session = self._base.newSession()
            for name, value in OPTIONS.items():
                self._session.conf.set(name, value)
        return self._session

    @property
    def parts(self) -> int:
        """How many parts keep every core busy to the end."""
        return self.cores * PARTS_PER_CORE

    def parts_for(self, rows: int, size: int = 0) -> int:
        """As many parts as so many rows and bytes are worth, in full rounds of all cores."""
        wanted = max(-(-rows // ROWS_PER_PART), -(-size // BYTES_PER_PART))
        small = max(-(-rows // ROWS_PER_PART_MIN), -(-size // BYTES_PER_PART_MIN))
        return max(1, min(small, -(-wanted // self.cores) * self.cores))

    def spread(
        self,
        items: list[Any],
        work: Callable[[Any], Iterator[Any]],
        kind: type[Row],
        parts: int = 0,
    ) -> list[Row]:
        """The rows that executors make of each item, neighbours in one part; raises a problem."""
        return gathered(self.lazily(items, partial(with_problem, work), parts), kind)

    def lazily(self, items: list[Any], work: Callable[[Any], Iterator[Any]], parts: int = 0) -> Any:  # noqa: ANN401 - an RDD
        """Such rows for another job, which takes each problem as a row.

        Cancelling ends the jobs that run; that none follows them is decided here.
        """
        if self._given_up.is_set():
            raise UnavailableError("this step of the workspace was cancelled")
        wanted = max(1, min(len(items), parts or self.parts))
        return self._base.sparkContext.parallelize(items, wanted).flatMap(work)


@final
class PipelineSessions:
    """Runs steps in threads, each under a job group that ends with it."""

    def __init__(
        self, configuration: SparkConfiguration, open_work: OpenPartWork, concurrency: Concurrency
    ) -> None:
        self._configuration = configuration
        self._open_work = open_work
        self._concurrency = concurrency

    async def run(
        self,
        description: str,
        step: Callable[[PipelineSession], Answer],
        *,
        changes_lakefs: bool = False,
    ) -> Answer:
        """Run one step; if its caller is cancelled, so are its jobs."""
        group = f"perago pipeline {next(_groups)}"
        opened: list[Any] = []
        given_up = Event()

        def work() -> Answer:
            session = process_session(self._configuration, needs_s3a=False)
            context = session.sparkContext
            opened.append(context)  # before the first job, so that `cancel` reaches every job
            context.setJobGroup(group, description, interruptOnCancel=True)
            cores = max(1, context.defaultParallelism)
            return step(PipelineSession(session, cores, self._open_work, given_up))

        def cancel() -> None:
            given_up.set()
            for context in opened:
                with suppress(Exception):  # py4j raises its own errors for a session that is gone
                    context.cancelJobGroup(group)

        try:
            return await self._concurrency.blocking(work, abandon=cancel)
        except (ServiceError, PeragoError):
            raise
        except Exception as error:
            raise no_answer(description, error, changes_lakefs=changes_lakefs) from error


def no_answer(description: str, error: Exception, *, changes_lakefs: bool) -> ServiceError:
    """What a failure of Spark itself means, for example of an executor that died too often.

    Of the parts of such a job some may have ended, and what they wrote stays written: law L0.
    """
    kind = OutcomeUnknownError if changes_lakefs else UnavailableError
    return kind(f"Spark could not {description}: {first_line(error)}")


@final
class PipelineState:
    """The tables of one workspace."""

    def __init__(self, root: Path, directory: Path) -> None:
        digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
        self._root = root
        self._directory = directory
        self.folder = root / f"{directory.name}-{digest}"
        self._owner = root / f"{self.folder.name}{OWNER}"
        self.inventory = self.folder / "inventory"  # what the commit holds
        self.index = self.folder / "index"  # what was materialised
        self.changes = self.folder / "changes"  # what the comparison found, in no order
        self.plan = self.folder / "plan"  # what has to move
        self.incoming = self.folder / "incoming"  # where objects arrive, as long as objects may

    def create(self) -> None:
        """Make room, and remove what belongs to workspaces that are no more."""
        self._root.mkdir(parents=True, exist_ok=True)
        _sweep(self._root)  # first, so that the space of dead workspaces is free
        self.remove()
        # Before the folder, because a sweep finds by it what a process leaves that dies here.
        self._owner.write_text(os.fspath(self._directory), encoding="utf-8")
        self.incoming.mkdir(parents=True)

    def empty(self, folder: Path) -> None:
        """Make room for a table that may have been written before."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    def close_incoming(self) -> None:
        """Rename `incoming`, so that a part that was given up and still runs can write nothing."""
        closed = self.incoming.rename(self.folder / "closed")
        shutil.rmtree(closed, ignore_errors=True)

    def remove(self) -> None:
        """Forget all of it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            self._owner.unlink()


def _sweep(root: Path) -> None:
    for owner in root.glob(f"*{OWNER}"):
        with suppress(OSError):  # another worker sweeps the same folder
            if not Path(owner.read_text(encoding="utf-8")).exists():
                shutil.rmtree(owner.with_suffix(""), ignore_errors=True)
                owner.unlink()
