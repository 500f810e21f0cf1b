"""Which of the runtime's own metrics a task reports.

Declares only; `metric_recorder` is what a body writes its own metrics with.
"""

from pydantic import BaseModel, ConfigDict


class MetricSpec(BaseModel):
    """Switches for the runtime metrics of one task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: bool = True
    workspace_io: bool = True
    worker_capacity: bool = True
