"""Running the task function, wherever it runs, and the lease that an attempt keeps meanwhile.

`TaskBody` runs a call in this process, a thread or an executor, and says how it ended. `Lease` is
the heartbeats, which must be ended before the terminal update is sent.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias, final

from perago.domain.attempt import AttemptSnapshot, ExecutionId
from perago.domain.hand_back import Cause
from perago.ports.system import nothing
from perago.ports.workspace import SparkRoots


@dataclass(frozen=True, slots=True)
class StagedChanges:
    """What a staged commit holds below the prefix, and in what it differs from the input.

    All paths are relative to the prefix. `sizes` has every file of the commit; it is None where
    the workspace of the call is a directory with exactly those files.
    """

    prefix: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    sizes: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Checkpoint:
    """What an earlier attempt kept: a directory beside the workspace, its note, and its time."""

    path: Path
    note: Any
    taken_at: datetime


@dataclass(frozen=True, slots=True)
class CheckpointTerms:
    """Where a task function puts its checkpoints, how often and how large; plain JSON.

    Finished copies lie in `out`, the newest one only: a process without keys makes them, and
    another one takes them away. `refused` says why this call has no checkpoints.
    """

    out: str = ""
    interval_seconds: float = 0.0
    bytes_max: int = 0
    found: Checkpoint | None = None
    refused: str = ""


async def _by_another_process() -> None:
    """The default of `upload`: a process without keys uploads nothing itself."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of one call: the terms, who uploads a copy, and who is told of one.

    `upload` sends the newest copy that waits, if one does, and raises nothing. `taken` may be
    called from any thread. Both stay in their process when the call is sent to an executor.
    """

    terms: CheckpointTerms
    upload: Callable[[], Awaitable[None]] = field(default=_by_another_process, compare=False)
    taken: Callable[[], None] = field(default=nothing, compare=False)


@dataclass(frozen=True)
class Changes:
    """What differs in the input since the task published last; relative to the prefix, in order.

    `since` is the commit of that publication. A file that the task itself had published, and that
    no other writer has touched since, is in none of the three.
    """

    since: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


AskChanges: TypeAlias = Callable[[], Coroutine[Any, Any, Changes | None]]
"""Asked on the side of the keys; None where nothing was published before or too much changed."""


@dataclass(frozen=True, slots=True)
class BodyCall:
    """One call: which task, where its workspace is, and its parameters as plain JSON.

    A workspace is a local directory or, for a Spark task, roots that Spark opens. A call with
    `staged` runs the checks of the task instead of its function, and returns an empty result.
    Functions in it do not count when calls are compared, and are not sent to an executor.
    """

    task_name: str
    attempt: AttemptSnapshot
    execution_id: ExecutionId
    params: Mapping[str, object]
    workspace: Path | None
    seconds_max: float = 0.0
    spark: SparkRoots | None = None
    staged: StagedChanges | None = None
    checkpoints: Checkpoints | None = None
    changes: AskChanges | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class BodyReturned:
    """The function returned; its validated result as plain JSON."""

    result: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class BodyRaised:
    """The function raised; `terminal` means that a retry cannot help."""

    reason: str
    terminal: bool = False
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class BodyStopped:
    """The body was ended from outside: a limit, a drain, a lost attempt, a crashed process.

    `cause` says whether that is the task's own failure. A crash counts as one, because as a rule it
    was the task function that took all memory or ended the process; that of an executor which had
    not begun the call does not.
    """

    reason: str
    cause: Cause = Cause.FAILED


BodyOutcome = BodyReturned | BodyRaised | BodyStopped


class TaskBody(Protocol):
    """Runs task functions.

    Laws (tests/contract/test_task_body.py has one test for each, by name):

    Y1 returns_the_result: a function's model comes back as plain JSON.
    Y2 exceptions_are_values: an exception becomes BodyRaised naming its type; a terminal one
       says so.
    Y3 system_exit_is_contained: a body that exits the interpreter becomes a value.
    Y4 limit_ends_the_body: a body beyond its limit becomes BodyStopped.
    Y5 unsendable_result_is_a_failure: a result that JSON cannot say or that is larger than
       Conductor takes becomes BodyRaised, and the next body runs.
    Y6 telemetry_never_ends_a_body: whatever a body hands over as a sample, a label, a log record
       or a line of progress, it returns as it would have without, and the next body runs.
    Y7 checks_run_as_bodies_do: a call with a staged commit runs the checks and not the function;
       an exception of a check becomes BodyRaised naming the check, and a limit ends it.
    Y8 copies_are_reported: a copy that the function takes for a checkpoint is complete, and `taken`
       was called, when the call returns; a refused one raises in the function.
    Y9 changes_are_answered: a function that asks gets what `changes` answers, from any thread and
       as often as it asks, with one question; a failure raises in the function.
    """

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Run one call to its end."""
        ...


class Lease(Protocol):
    """The lease of one attempt: one sender, joined before any terminal update.

    Laws (tests/contract/test_lease.py has one test for each, by name):

    L1 end_joins_the_sender: after `end` no heartbeat is under way and none follows.
    L2 end_is_idempotent: ending twice succeeds.
    L3 last_beat_is_the_last_that_was_answered: it tells when that one was sent; before the first
       beat, when the lease began.
    """

    @property
    def last_beat(self) -> float | None:
        """Monotonic seconds from which the lease counts; None where nothing beats."""
        ...

    async def end(self) -> None:
        """Stop the heartbeats and wait for the one under way."""
        ...


@final
class NoLease(Lease):
    """For an attempt that needs no heartbeat, because it is over before any could be due."""

    @property
    def last_beat(self) -> None:
        """Nothing beats."""
        return

    async def end(self) -> None:
        """There is nothing to wait for."""
