"""One started workflow of an environment, as a test looks at it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast, final

from perago.domain.attempt import AttemptRecord, WorkflowStatus
from perago.ports.workflows import WorkflowRecord, Workflows


@final
@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """Every method asks the server anew."""

    id: str
    name: str
    workflows: Workflows

    async def read(self) -> WorkflowRecord:
        """Status, input, output and all rows."""
        found = await self.workflows.read(self.id)
        assert found is not None, f"workflow {self.id} is gone"
        return found

    async def status(self) -> WorkflowStatus:
        """The status."""
        return (await self.read()).status

    async def output(self) -> Mapping[str, object]:
        """The workflow's output."""
        return (await self.read()).output_data

    async def attempts(self, reference: str | None = None) -> tuple[AttemptRecord, ...]:
        """The rows of one task, or of all, oldest first."""
        rows = (await self.read()).attempts
        return tuple(
            row for row in rows if reference is None or row.snapshot.reference_name == reference
        )

    async def result(self, reference: str) -> Mapping[str, object]:
        """What the accepted attempt of a task returned."""
        return cast("Mapping[str, object]", (await self._accepted(reference))["result"])

    async def published(self, reference: str) -> str:
        """The commit that the accepted attempt of a task reported."""
        workspace = cast("Mapping[str, object]", (await self._accepted(reference))["workspace"])
        return str(workspace["ref"])

    async def _accepted(self, reference: str) -> Mapping[str, object]:
        rows = await self.attempts(reference)
        accepted = [row for row in rows if row.snapshot.status == "COMPLETED"]
        assert accepted, f"no attempt of {reference} completed: {[_ended(row) for row in rows]}"
        return accepted[-1].output_data


def _ended(row: AttemptRecord) -> str:
    return f"{row.snapshot.status} {row.reason or ''}".strip()
