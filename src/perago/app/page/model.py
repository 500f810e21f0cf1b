"""What the page shows, as plain values: one model for the test kit and for real servers.

`perago dev` makes it of the story of a run, `perago watch` of what Conductor and lakeFS know.
`page_document` is the JSON that the page reads and `perago watch --json` prints. A fact that is
not known is None or `NOT_SEEN`, never a guess.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum, StrEnum
from functools import cache
from typing import cast

from pydantic import TypeAdapter


class Step(StrEnum):
    """The steps of an attempt that the page draws, in their order."""

    QUEUED = "queued"
    POLLED = "polled"
    INPUT = "input"
    RAN = "ran"
    STAGED = "staged"
    DECIDED = "decided"
    PUBLISHED = "published"
    ENDED = "ended"


class Seen(StrEnum):
    """How a step is known: seen itself, following from a later one, or not at all."""

    SEEN = "seen"
    FOLLOWS = "follows"
    NOT_SEEN = "not seen"


class RunState(StrEnum):
    """What became of a run."""

    OPEN = "open"
    HELD = "held"
    PUBLISHED = "published"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class StepView:
    """One step of one attempt; `at` is in seconds, of the clock that its scene names."""

    name: Step
    seen: Seen
    at: float | None = None
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class EventView:
    """One event of an attempt, as its worker emitted it."""

    at: float
    kind: str
    text: str
    facts: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt; `events` is None where only the log of its worker has them."""

    id: str
    workflow: str
    task: str
    number: int
    status: str
    worker: str | None = None
    came_to: str = ""
    code: str | None = None
    reason: str | None = None
    ended: bool = False
    steps: tuple[StepView, ...] = ()
    events: tuple[EventView, ...] | None = None
    refs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Full ids by what they are: input, output, executions."""
    left: tuple[str, ...] = ()
    """Branches and tags of it that are still there."""


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task of a workflow with the end of its newest attempt."""

    name: str
    status: str
    attempts: int
    decision: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowView:
    """One workflow; `children` are ids of sub-workflows, which have attempts of their own."""

    id: str
    name: str
    status: str
    reason: str | None = None
    tasks: tuple[TaskView, ...] = ()
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunView:
    """One run: the branch of the run, its target, and the publication if there is one."""

    key: str
    branch: str
    target: str
    state: RunState
    publication: str | None = None


@dataclass(frozen=True, slots=True)
class CommitView:
    """One commit. `staged` is the staged commit that it published."""

    id: str
    parents: tuple[str, ...]
    kind: str
    label: str = ""
    message: str = ""
    staged: str = ""
    tags: tuple[str, ...] = ()
    at: float | None = None
    attempt: str | None = None

    @property
    def is_decided(self) -> bool:
        """Whether attempts agreed on it."""
        return any(tag.startswith("perago-settled-") for tag in self.tags)


@dataclass(frozen=True, slots=True)
class BranchView:
    """One branch with its commits, newest first; `is_target` for one that attempts publish to."""

    name: str
    commits: tuple[CommitView, ...]
    is_target: bool = False


@dataclass(frozen=True, slots=True)
class RepositoryView:
    """One repository; `omitted` counts commits and branches that the model leaves out."""

    name: str
    branches: tuple[BranchView, ...]
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class SceneView:
    """One run of workflows. `clock` says what times count: `utc`, or seconds of the test kit."""

    title: str
    status: str
    clock: str
    policy: str = ""
    problems: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    workflows: tuple[WorkflowView, ...] = ()
    runs: tuple[RunView, ...] = ()
    attempts: tuple[AttemptView, ...] = ()
    repositories: tuple[RepositoryView, ...] = ()


@dataclass(frozen=True, slots=True)
class PageView:
    """Everything on the page; `live` while something may still change.

    `read_at` is when the servers were read, in seconds since 1970; `notice` what is wrong with
    that, such as a server that does not answer.
    """

    title: str
    scenes: tuple[SceneView, ...] = ()
    live: bool = True
    read_at: float | None = None
    notice: str = ""
    error: str = ""


def without_secrets(page: PageView, masked: Callable[[str], str]) -> PageView:
    """The same page; `masked` takes secrets out of every text that is not one of our words."""

    def clean(value: object) -> object:
        if isinstance(value, str):
            return value if isinstance(value, Enum) else masked(value)
        if isinstance(value, tuple):
            return tuple(map(clean, cast("tuple[object, ...]", value)))
        if isinstance(value, Mapping):
            items = cast("Mapping[str, object]", value).items()
            return {name: clean(each) for name, each in items}
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value, **{each.name: clean(getattr(value, each.name)) for each in fields(value)}
            )
        return value

    return cast("PageView", clean(page))


@cache
def _page_type() -> TypeAdapter[PageView]:
    """Made when a page is shown: it takes longer than the import of this module."""
    return TypeAdapter(PageView)


def page_document(page: PageView) -> dict[str, object]:
    """The page as JSON."""
    return cast("dict[str, object]", _page_type().dump_python(page, mode="json"))
