"""Faults of tests, and the moments of an attempt at which they happen.

`crash`, `lose_answer`, `zombie` and the others make a fault, which happens once, or with `always`
each time; `find_point` reads its moment: a word of the specification (`merge`), a call of a port
(`branches.merge`), or `ANY_CALL`. No test plans other faults; `fault_injector` does them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from perago.domain.commit_metadata import LOGICAL_TASK_KEY, PHASE, TRY
from perago.domain.names import DECISION_TAG_PREFIX, STAGING_BRANCH_PREFIX
from perago.ports.conductor import TaskDefinitions, TaskQueue, Workflows
from perago.ports.lakefs import Branches, CommitRequest, Commits, MergeRequest, Repositories, Tags
from perago.ports.objects import Objects
from perago.ports.task_body import TaskBody
from perago.ports.workspace import AttemptDirectories, WorkspacePipeline

Given = TypeVar("Given")
# Calls within the worker's machine: no request travels whose answer could be lost.
LOCAL_PORTS = frozenset({"pipeline", "body", "directories"})
PORTS: Mapping[str, type] = MappingProxyType(
    {"branches": Branches, "commits": Commits, "tags": Tags, "objects": Objects}
    | {"repositories": Repositories}
    | {"queue": TaskQueue, "definitions": TaskDefinitions, "workflows": Workflows}
    | {"pipeline": WorkspacePipeline, "body": TaskBody, "directories": AttemptDirectories}
)
OPERATIONS = frozenset(
    f"{name}.{verb}" for name, port in PORTS.items() for verb in vars(port) if verb[0] != "_"
)
ANY_CALL = "any call"  # every request that travels; with `nth=` a test reaches each in turn


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a port on its way: `merge` of `branches`, and what it was given."""

    operation: str
    arguments: tuple[object, ...]
    options: Mapping[str, object]

    def given(self, kind: type[Given]) -> Given | None:
        """The first argument of a kind."""
        return next((value for value in self.arguments if isinstance(value, kind)), None)


def _is_try(call: Call) -> bool:
    request = call.given(CommitRequest)
    return request is not None and request.metadata.get(PHASE) == TRY


def _is_staging_branch(call: Call) -> bool:
    # A process that meets a fence for the first time makes two branches of its canary before.
    merge = call.given(MergeRequest)
    names = call.arguments if merge is None else (merge.target,)
    return any(str(name).startswith(STAGING_BRANCH_PREFIX) for name in names)


def _is_publication(call: Call) -> bool:
    # The canary merges as well, and an attempt does to bring its commit onto a newer head.
    request = call.given(MergeRequest)
    return request is None or LOGICAL_TASK_KEY in request.metadata


def _is_decision(call: Call) -> bool:
    return any(str(value).startswith(DECISION_TAG_PREFIX) for value in call.arguments)


@dataclass(frozen=True, slots=True)
class Point:
    """A moment: the calls that are it, and which of them count."""

    operations: frozenset[str]
    counts: Callable[[Call], bool]

    def is_reached_by(self, call: Call) -> bool:
        """Whether a call is this moment."""
        return call.operation in self.operations and self.counts(call)

    @property
    def is_remote(self) -> bool:
        """Whether a request travels, whose answer can be lost."""
        return not {name.partition(".")[0] for name in self.operations} & LOCAL_PORTS


def _point(*operations: str, counts: Callable[[Call], bool] = lambda _: True) -> Point:
    return Point(frozenset(operations), counts)


POINTS: Mapping[str, Point] = MappingProxyType(
    {
        "download": _point("pipeline.materialise"),
        "function": _point("body.run"),
        "compare": _point("pipeline.plan"),
        "fence": _point("queue.read_workflow"),
        "branch": _point("branches.create", counts=_is_staging_branch),
        "upload": _point("pipeline.transfer"),
        "stage": _point("commits.commit", counts=_is_try),
        "decide": _point("tags.create", counts=_is_decision),
        "head": _point("branches.head"),
        "onto-head": _point("branches.merge", counts=_is_staging_branch),
        "merge": _point("branches.merge", counts=_is_publication),
        "relocate": _point("branches.relocate"),
        "publish": _point("branches.merge", "branches.relocate", counts=_is_publication),
        "complete": _point("queue.complete"),
        "read-back": _point("queue.read_attempt"),
        "clean-up": _point("branches.delete", counts=_is_staging_branch),
    }
)

# What travels for a call within the machine. Its caller sees what the network does to it.
REQUEST_WITHIN: Mapping[str, str] = MappingProxyType(
    {"download": "objects.download", "upload": "objects.upload"}
)
REQUESTS = _point(*(name for name in OPERATIONS if name.partition(".")[0] not in LOCAL_PORTS))


def find_point(name: str) -> Point:
    """The moment of a name: a word of the list, or the call of a port."""
    if name in POINTS:
        return POINTS[name]
    if name in OPERATIONS:
        return _point(name)
    if name == ANY_CALL:
        return REQUESTS
    raise ValueError(
        f"no moment of an attempt is called {name!r}; expected one of {', '.join(POINTS)}, "
        "or a call of a port such as branches.merge"
    )


FOREIGN_FILES: Mapping[str, bytes | None] = {"elsewhere/foreign.txt": b"of another writer"}


class Side(StrEnum):
    """On which side of the moment."""

    BEFORE = "before"
    AFTER = "after"


class Until(StrEnum):
    """What a zombie sleeps through."""

    RETRIED = "retried"
    PUBLISHED = "published"
    ACCEPTED = "accepted"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Moment:
    """The `nth` time that the `attempt`-th attempt of `task` comes to `point`.

    `task` is a task type or a reference name; None means whichever comes first. `each_time` means
    every later time too.
    """

    point: str
    side: Side
    nth: int = 1
    attempt: int = 1
    task: str | None = None
    each_time: bool = False

    def __post_init__(self) -> None:
        """Refuse a moment that never comes."""
        find_point(self.point)
        for name, value in (("nth", self.nth), ("attempt", self.attempt)):
            if value < 1:
                raise ValueError(f"{name} counts from 1, found {value}")

    def is_reached_by(self, call: Call) -> bool:
        """Whether a call is this moment, whatever its number."""
        return find_point(self.point).is_reached_by(call)

    def __str__(self) -> str:
        count = "" if self.nth == 1 else f" (call {self.nth})"
        count = f" (each from call {self.nth})" if self.each_time else count
        return f"{self.side} {self.point}{count}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, and when; each kind is a class of its own."""

    moment: Moment


@dataclass(frozen=True, slots=True)
class Crash(Fault):
    """The process dies, and no cleanup of its own runs."""


@dataclass(frozen=True, slots=True)
class LoseRequest(Fault):
    """The request never arrives, and no answer comes."""


@dataclass(frozen=True, slots=True)
class LoseAnswer(Fault):
    """The request arrives and takes effect, but its answer is lost."""


@dataclass(frozen=True, slots=True)
class ArriveLate(Fault):
    """No answer comes, and the request takes effect when others have acted."""

    until: Until


@dataclass(frozen=True, slots=True)
class Unavailable(Fault):
    """The server answers that it cannot answer; nothing happens."""


@dataclass(frozen=True, slots=True)
class Outage(Fault):
    """The service of the call is away for some seconds, for every worker."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Refuse(Fault):
    """The port raises this error of `perago.ports.errors`; nothing happens."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Answer(Fault):
    """The port answers with this value; nothing happens."""

    value: object


@dataclass(frozen=True, slots=True)
class Zombie(Fault):
    """The process stops, its lease expires, and it continues when others have acted."""

    until: Until


@dataclass(frozen=True, slots=True)
class ExpireLease(Fault):
    """The process stops for longer than its lease, and then continues."""


@dataclass(frozen=True, slots=True)
class Drain(Fault):
    """The worker of the attempt is told to stop, as a deploy does it."""


@dataclass(frozen=True, slots=True)
class ForeignCommit(Fault):
    """A writer without Perago commits to the target branch."""

    files: Mapping[str, bytes | None] = field(default_factory=lambda: FOREIGN_FILES)


@dataclass(frozen=True, slots=True)
class Meanwhile(Fault):
    """A test acts on the same servers while the call is on its way."""

    action: Callable[[], object]


AnyFault = TypeVar("AnyFault", bound=Fault)


def always(fault: AnyFault) -> AnyFault:
    """The same fault each time from its moment on, such as `always(lose_request("merge"))`."""
    return replace(fault, moment=replace(fault.moment, each_time=True))


def crash(
    *,
    before: str | None = None,
    after: str | None = None,
    nth: int = 1,
    attempt: int = 1,
    task: str | None = None,
) -> Crash:
    """The process dies `before` or `after` a moment, such as `crash(before="merge")`."""
    return Crash(_moment(before, after, nth=nth, attempt=attempt, task=task))


def lose_answer(
    point: str, *, nth: int = 1, attempt: int = 1, task: str | None = None
) -> LoseAnswer:
    """The effect happens and its answer is lost, such as `lose_answer("merge", nth=2)`."""
    return LoseAnswer(_remote(point, Side.AFTER, nth=nth, attempt=attempt, task=task))


def lose_request(
    point: str, *, nth: int = 1, attempt: int = 1, task: str | None = None
) -> LoseRequest:
    """The request is lost on its way; the worker cannot tell this from a lost answer."""
    return LoseRequest(_remote(point, Side.BEFORE, nth=nth, attempt=attempt, task=task))


def arrive_late(
    point: str,
    *,
    until: str = "accepted",
    nth: int = 1,
    attempt: int = 1,
    task: str | None = None,
) -> ArriveLate:
    """The request stays on its way and takes effect when others have acted; no answer comes.

    `until` has the words of `zombie`. The sender may have died before its request arrives.
    """
    moment = _remote(point, Side.BEFORE, nth=nth, attempt=attempt, task=task)
    return ArriveLate(moment, Until(until))


def refuse(
    point: str, error: Exception, *, nth: int = 1, attempt: int = 1, task: str | None = None
) -> Refuse:
    """The server refuses with an error of the port, such as AccessDeniedError."""
    return Refuse(_remote(point, Side.BEFORE, nth=nth, attempt=attempt, task=task), error)


def answer(
    point: str, value: object, *, nth: int = 1, attempt: int = 1, task: str | None = None
) -> Answer:
    """The server answers with a value that the port can return, such as MergeConflict."""
    return Answer(_remote(point, Side.BEFORE, nth=nth, attempt=attempt, task=task), value)


def unavailable(
    point: str, *, nth: int = 1, attempt: int = 1, task: str | None = None
) -> Unavailable:
    """The server refuses to answer once."""
    return Unavailable(_remote(point, Side.BEFORE, nth=nth, attempt=attempt, task=task))


def outage(
    *,
    before: str | None = None,
    after: str | None = None,
    seconds: float = 20.0,
    nth: int = 1,
    attempt: int = 1,
    task: str | None = None,
) -> Outage:
    """LakeFS, or Conductor, is away from a moment on: whichever that call asks.

    `before` refuses the call as well; with `after` it takes effect, and its answer is lost.
    """
    if not seconds > 0:  # NaN too
        raise ValueError(f"an outage lasts for some seconds, found {seconds}")
    moment = _moment(before, after, nth=nth, attempt=attempt, task=task)
    return Outage(_travels(moment), seconds)


def zombie(
    *,
    attempt: int = 1,
    until: str = "accepted",
    before: str | None = None,
    after: str | None = None,
    nth: int = 1,
    task: str | None = None,
) -> Zombie:
    """The attempt stops, by default right before it publishes, `until` others have acted.

    `retried`: its successor runs; `published`: its successor has published; `accepted`: Conductor
    accepted its successor; `idle`: nothing else can happen.
    """
    before = "publish" if before is None and after is None else before
    return Zombie(_moment(before, after, nth=nth, attempt=attempt, task=task), Until(until))


def expire_lease(
    *,
    before: str | None = None,
    after: str | None = None,
    attempt: int = 1,
    task: str | None = None,
) -> ExpireLease:
    """Conductor times the attempt out while it is stopped, by default before it publishes."""
    before = "publish" if before is None and after is None else before
    return ExpireLease(_moment(before, after, nth=1, attempt=attempt, task=task))


def drain(
    *,
    before: str | None = None,
    after: str | None = None,
    nth: int = 1,
    attempt: int = 1,
    task: str | None = None,
) -> Drain:
    """The worker is told to stop, as a deploy does, such as `drain(before="function")`."""
    return Drain(_moment(before, after, nth=nth, attempt=attempt, task=task))


def foreign_commit(
    *,
    before: str | None = None,
    after: str | None = None,
    files: Mapping[str, bytes | None] | None = None,
    attempt: int = 1,
    task: str | None = None,
) -> ForeignCommit:
    """Another writer commits `files` (None deletes one) to the target, such as `after="stage"`."""
    moment = _moment(before, after, nth=1, attempt=attempt, task=task)
    return ForeignCommit(moment, FOREIGN_FILES if files is None else dict(files))


def meanwhile(
    action: Callable[[], object],
    *,
    before: str | None = None,
    after: str | None = None,
    nth: int = 1,
    attempt: int = 1,
    task: str | None = None,
) -> Meanwhile:
    """Call `action` before or after a moment, and await what it returns if that can be awaited."""
    return Meanwhile(_moment(before, after, nth=nth, attempt=attempt, task=task), action)


def _moment(
    before: str | None, after: str | None, *, nth: int, attempt: int, task: str | None
) -> Moment:
    if (before is None) == (after is None):
        raise ValueError(f"a fault needs one of before= and after=, found {before!r} and {after!r}")
    point, side = (after, Side.AFTER) if before is None else (before, Side.BEFORE)
    assert point is not None, "one of the two was given"
    return Moment(point, side, nth=nth, attempt=attempt, task=task)


def _remote(point: str, side: Side, *, nth: int, attempt: int, task: str | None) -> Moment:
    return _travels(Moment(point, side, nth=nth, attempt=attempt, task=task))


def _travels(moment: Moment) -> Moment:
    """The same moment as that of a request: a transfer is made of many."""
    moment = replace(moment, point=REQUEST_WITHIN.get(moment.point, moment.point))
    if not find_point(moment.point).is_remote:
        raise ValueError(f"{moment.point} sends no request; no server can leave it unanswered")
    return moment
