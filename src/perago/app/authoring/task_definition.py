"""One declared task as a value: what the decorator found out about a function.

Holds facts; nothing is checked here, `task_declaration` has done that.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from perago.app.authoring.metric_spec import MetricSpec
from perago.app.authoring.task_controls import TaskControls
from perago.app.authoring.workspace_spec import WorkspaceSpec


@dataclass(frozen=True)
class TaskDefinition:
    """A task: its function, its contract, and what it asks of lakeFS and Conductor."""

    name: str
    owner_email: str
    fn: Callable[..., Any]
    params_model: type[BaseModel]
    output_model: type[BaseModel]
    strict_params: bool = False
    description: str | None = None
    workspace: WorkspaceSpec | None = None
    metrics: MetricSpec | None = None
    controls: TaskControls = field(default_factory=TaskControls)
    on_spark: bool = False

    @property
    def has_workspace(self) -> bool:
        """Whether the body gets a workspace."""
        return self.workspace is not None
