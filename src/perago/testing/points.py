"""The moments of an attempt that a fault can name, and the calls of ports they stand for.

`merge` is a word of the specification, `branches.merge` a call; both are accepted. What happens
at a moment is not known here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perago.domain.commit_metadata import PHASE, TRY
from perago.domain.logical_execution import DECISION_TAG_PREFIX
from perago.ports.attempt_directory import AttemptDirectories
from perago.ports.branches import Branches, MergeRequest
from perago.ports.commits import CommitRequest, Commits
from perago.ports.objects import Objects
from perago.ports.repositories import Repositories
from perago.ports.tags import Tags
from perago.ports.task_body import TaskBody
from perago.ports.task_queue import TaskQueue
from perago.ports.workspace_pipeline import WorkspacePipeline

LOCAL_PORTS = frozenset({"pipeline", "body", "directories"})
PORTS: Mapping[str, type] = MappingProxyType(
    {
        "branches": Branches,
        "commits": Commits,
        "tags": Tags,
        "objects": Objects,
        "repositories": Repositories,
        "queue": TaskQueue,
        "pipeline": WorkspacePipeline,
        "body": TaskBody,
        "directories": AttemptDirectories,
    }
)
OPERATIONS = frozenset(
    f"{name}.{verb}"
    for name, port in PORTS.items()
    for verb in vars(port)
    if not verb.startswith("_")
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a port on its way: `merge` of `branches`, and what it was given."""

    operation: str
    arguments: tuple[object, ...]
    options: Mapping[str, object]

    def given(self, kind: type) -> object | None:
        """The first argument of a kind."""
        return next((value for value in self.arguments if isinstance(value, kind)), None)


def _always(call: Call) -> bool:
    del call
    return True


def _is_try(call: Call) -> bool:
    request = call.given(CommitRequest)
    return isinstance(request, CommitRequest) and request.metadata.get(PHASE) == TRY


def _is_publication(call: Call) -> bool:
    request = call.given(MergeRequest)
    return not isinstance(request, MergeRequest) or bool(request.metadata)


def _is_decision(call: Call) -> bool:
    return any(str(value).startswith(DECISION_TAG_PREFIX) for value in call.arguments)


@dataclass(frozen=True, slots=True)
class Point:
    """A moment: the calls that are it, and which of them count."""

    operations: frozenset[str]
    counts: Callable[[Call], bool] = _always

    def is_reached_by(self, call: Call) -> bool:
        """Whether a call is this moment."""
        return call.operation in self.operations and self.counts(call)

    @property
    def is_remote(self) -> bool:
        """Whether a request travels, whose answer can be lost."""
        return not {name.partition(".")[0] for name in self.operations} & LOCAL_PORTS


def _point(*operations: str, counts: Callable[[Call], bool] = _always) -> Point:
    return Point(frozenset(operations), counts)


POINTS: Mapping[str, Point] = MappingProxyType(
    {
        "download": _point("pipeline.materialise"),
        "body": _point("body.run"),
        "compare": _point("pipeline.plan"),
        "fence": _point("queue.read_workflow"),
        "branch": _point("branches.create"),
        "upload": _point("pipeline.transfer"),
        "stage": _point("commits.commit", counts=_is_try),
        "decide": _point("tags.create", counts=_is_decision),
        "head": _point("branches.head"),
        "merge": _point("branches.merge", counts=_is_publication),
        "relocate": _point("branches.relocate"),
        "publish": _point("branches.merge", "branches.relocate", counts=_is_publication),
        "complete": _point("queue.complete"),
        "read-back": _point("queue.read_attempt"),
        "clean-up": _point("branches.delete"),
    }
)


def find_point(name: str) -> Point:
    """The moment of a name: a word of the list, or the call of a port."""
    if name in POINTS:
        return POINTS[name]
    if name in OPERATIONS:
        return Point(frozenset({name}))
    raise ValueError(
        f"no moment of an attempt is called {name!r}; expected one of {', '.join(POINTS)}, "
        "or a call of a port such as branches.merge"
    )
