"""What an author says about the workspace of a task: which part, what must hold, who may write.

Declares only; how object paths map to local paths is `perago.domain`.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from perago.app.authoring.guardrail_declaration import WorkspaceGuardrail
from perago.domain.authoring_errors import TaskDefinitionError

ROOT_PREFIX = "/"
_CODE = "PRG-T015"


class WorkspaceSpec(BaseModel):
    """The part of the repository a task works on, its guardrails and its isolation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str = ROOT_PREFIX
    """Folder of the repository; `"/"` is the whole repository."""
    pre: list[WorkspaceGuardrail] = Field(default_factory=list[WorkspaceGuardrail])
    """Guardrails checked before the body; a violation is terminal."""
    post: list[WorkspaceGuardrail] = Field(default_factory=list[WorkspaceGuardrail])
    """Guardrails checked after the body; a violation fails the attempt."""
    read_only: bool = False
    """Whether local changes are dropped instead of published."""
    isolation: Literal["branch", "prefix"] = "branch"
    """What must not have moved when the task publishes: the branch, or only the prefix."""

    @field_validator("prefix")
    @classmethod
    def _normalise_prefix(cls, prefix: str) -> str:
        if "\\" in prefix:
            raise TaskDefinitionError("WorkspaceSpec.prefix must use '/' separators", code=_CODE)
        stripped = prefix.strip()
        if stripped == ROOT_PREFIX:
            return ROOT_PREFIX
        relative = stripped.lstrip("/")
        if not relative:
            raise TaskDefinitionError("WorkspaceSpec.prefix must not be empty", code=_CODE)
        if not {"", ".", ".."}.isdisjoint(relative.split("/")):
            raise TaskDefinitionError(
                "WorkspaceSpec.prefix must stay inside the repository", code=_CODE
            )
        return relative
