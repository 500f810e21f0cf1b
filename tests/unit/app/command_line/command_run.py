"""How a command was run and ended, and the text of a task module."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perago.domain.lakefs import CommitId
from perago.ports.installations import ConductorInstallation

TASK = """
from pathlib import Path
from pydantic import BaseModel
from perago import PublishBudget, TaskControls, TimeoutPolicy, WorkspaceSpec, task


class Params(BaseModel):
    rows: int = 1


class Result(BaseModel):
    written: int


@task(name="{name}", owner_email="team@example.org"{keywords})
def build({workspace}params: Params) -> Result:
    return Result(written=params.rows)
"""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document on stdout."""
        document: dict[str, Any] = json.loads(self.out)
        return document


Run = Callable[..., Ran]
Module = Callable[..., str]
Servers = tuple[CommitId, ConductorInstallation]
