"""What one workflow left in a repository, as listings name it, and how a leftover was judged."""

from dataclasses import dataclass, field

from perago.domain.attempt import WorkflowSnapshot
from perago.domain.references import BranchName
from perago.domain.retention import WorkflowStanding, standing_of
from perago.ports.tags import TagRecord


@dataclass(frozen=True, slots=True)
class Judged:
    """One leftover and what was decided about it; `error` when that could not be done."""

    kind: str
    name: str
    removed: bool
    reason: str
    error: str | None = None


@dataclass(slots=True)
class Leftovers:
    """The leftovers of one workflow, by kind."""

    decisions: list[TagRecord] = field(default_factory=list[TagRecord])
    branches: list[BranchName] = field(default_factory=list[BranchName])
    marks: list[TagRecord] = field(default_factory=list[TagRecord])

    def named(self) -> list[tuple[str, str]]:
        """Every leftover by kind and name."""
        return [
            *(("decision", tag.name) for tag in self.decisions),
            *(("staging branch", branch) for branch in self.branches),
            *(("attempt mark", tag.name) for tag in self.marks),
        ]


@dataclass(frozen=True, slots=True)
class Owner:
    """A workflow as names spell it, what Conductor says of it, and its decisions as listed."""

    segment: str
    workflow: WorkflowSnapshot | None
    decisions: tuple[TagRecord, ...] = ()

    @property
    def standing(self) -> WorkflowStanding:
        """Whether it lives."""
        return standing_of(self.workflow)
