"""What `perago.begin` and `perago.finish` are given, and what they put out."""

from typing import Annotated

from pydantic import BaseModel, Field

from perago.app.authoring.workspace_spec import WorkspaceInput, WorkspaceOutput
from perago.domain.finish import History, OnMoved
from perago.domain.logical_execution import BranchName, CommitId, RepositoryId
from perago.domain.run import KEY_PATTERN, Run, RunKey

_Name = Annotated[str, Field(min_length=1)]


class BeginParams(BaseModel):
    """The target of a run, and the commit to start from if it is not the head."""

    repository: _Name
    branch: _Name
    ref: _Name | None = None


class RunReference(BaseModel):
    """A run that has begun, as finish needs it."""

    repository: _Name
    branch: _Name
    run_branch: _Name
    base: _Name
    key: Annotated[str, Field(pattern=KEY_PATTERN)]

    @classmethod
    def of(cls, run: Run) -> "RunReference":
        """The reference of a run."""
        return cls(
            repository=run.repository,
            branch=run.branch,
            run_branch=run.run_branch,
            base=run.base,
            key=run.key,
        )

    def as_value(self) -> Run:
        """The plain value the core works with."""
        return Run(
            RepositoryId(self.repository),
            BranchName(self.branch),
            CommitId(self.base),
            RunKey(self.key),
        )


class BeginResult(BaseModel):
    """The workspace of the first task of the run, and what finish needs."""

    workspace: WorkspaceOutput
    run: RunReference


class FinishParams(BaseModel):
    """The run, the output of its last task, and how to publish it."""

    run: RunReference
    workspace: WorkspaceInput
    on_moved: OnMoved = OnMoved.REFUSE
    history: History = History.MERGE


class FinishResult(BaseModel):
    """The target with the run on it."""

    workspace: WorkspaceOutput


def workspace_at(repository: str, branch: str, ref: str) -> WorkspaceOutput:
    """A workspace at a commit."""
    return WorkspaceOutput(repository=repository, branch=branch, ref_type="commit", ref=ref)
