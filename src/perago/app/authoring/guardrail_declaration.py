"""The four guardrails an author declares on a workspace, as values.

Declares only; `guardrails` looks at a tree and judges.
"""

import os
from typing import Annotated, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from perago.app.authoring.guardrail_paths import check_guardrail_text, guardrail_path
from perago.domain.authoring_errors import TaskDefinitionError

DEFAULT_REQUIRE_GLOB_MIN_COUNT = 1

GuardrailKind = Literal["require_file", "require_dir", "require_glob", "forbid_glob"]
_Count = Annotated[int, Field(ge=0)]


class WorkspaceGuardrail(BaseModel):
    """One declared expectation; made by the four functions below, not by hand."""

    model_config = ConfigDict(frozen=True)

    kind: GuardrailKind
    path: str
    min_count: _Count | None = None
    max_count: _Count | None = None

    @field_validator("path")
    @classmethod
    def _path_stays_inside(cls, path: str) -> str:
        check_guardrail_text(path)
        return path

    @model_validator(mode="before")
    @classmethod
    def _require_glob_has_a_minimum(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        given = cast("dict[str, object]", values)
        if given.get("kind") == "require_glob":
            return {"min_count": DEFAULT_REQUIRE_GLOB_MIN_COUNT} | given
        return given

    @model_validator(mode="after")
    def _bounds_fit(self) -> "WorkspaceGuardrail":
        if self.kind != "require_glob":
            if self.min_count is not None or self.max_count is not None:
                raise TaskDefinitionError(
                    f"{self.kind} does not accept count bounds", code="PRG-T016"
                )
        elif self.max_count is not None and (self.min_count or 0) > self.max_count:
            raise TaskDefinitionError("guardrail min_count must be <= max_count", code="PRG-T016")
        return self


def require_file(path: str | os.PathLike[str]) -> WorkspaceGuardrail:
    """Expect a file at `path`, relative to the prefix of the workspace."""
    return WorkspaceGuardrail(kind="require_file", path=guardrail_path(path))


def require_dir(path: str | os.PathLike[str]) -> WorkspaceGuardrail:
    """Expect a directory at `path`, relative to the prefix of the workspace."""
    return WorkspaceGuardrail(kind="require_dir", path=guardrail_path(path))


def require_glob(
    pattern: str | os.PathLike[str],
    *,
    min_count: int = DEFAULT_REQUIRE_GLOB_MIN_COUNT,
    max_count: int | None = None,
) -> WorkspaceGuardrail:
    """Expect that `pattern` matches at least `min_count` and at most `max_count` entries."""
    return WorkspaceGuardrail(
        kind="require_glob",
        path=guardrail_path(pattern),
        min_count=min_count,
        max_count=max_count,
    )


def forbid_glob(pattern: str | os.PathLike[str]) -> WorkspaceGuardrail:
    """Expect that `pattern` matches nothing."""
    return WorkspaceGuardrail(kind="forbid_glob", path=guardrail_path(pattern))
