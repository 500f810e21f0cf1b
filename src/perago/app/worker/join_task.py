"""`perago.join`: a built-in task without a workspace that the parent serves itself.

Of the workspaces of joined tasks it returns the one whose history contains all others. It needs
lakeFS, and executors have no keys. The rule is the domain's.
"""

from collections.abc import Mapping
from typing import final

from pydantic import BaseModel, Field, ValidationError

from perago.app.authoring.failure import failure_reason
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_contract import WorkspaceInput
from perago.domain.join_workspaces import JoinRefused, join_workspaces
from perago.domain.references import CommitId, WorkspaceReference
from perago.ports.commits import Commits
from perago.ports.errors import WorldError
from perago.ports.task_body import BodyCall, BodyOutcome, BodyRaised, BodyReturned, TaskBody

JOIN = "perago.join"
WORKSPACES_MAX = 100
COMMITS_MAX = 10_000


class JoinParams(BaseModel):
    """The outputs of the joined tasks."""

    workspaces: list[WorkspaceInput] = Field(min_length=1, max_length=WORKSPACES_MAX)


class JoinResult(BaseModel):
    """The workspace that stands for all."""

    workspace: WorkspaceInput


@task(
    name=JOIN,
    owner_email="perago@example.com",
    description="Picks the workspace whose history contains those of all joined tasks.",
)
def join(params: JoinParams) -> JoinResult:
    """Never called: the parent answers."""
    text = f"the parent process answers {JOIN}, not a body: {params}"
    raise AssertionError(text)


JOIN_TASK = task_of(join)


@final
class JoiningBody(TaskBody):
    """Answers joins, and hands every other call on."""

    def __init__(self, beneath: TaskBody, commits: Commits) -> None:
        self._beneath = beneath
        self._commits = commits

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Join here; no executor is asked."""
        if call.task_name != JOIN:
            return await self._beneath.run(call)
        try:
            given = JoinParams.model_validate(call.params).workspaces
            verdict = await self._join([each.as_value() for each in given])
        except (ValidationError, WorldError) as error:
            return BodyRaised(failure_reason(error))
        if isinstance(verdict, JoinRefused):
            return BodyRaised(verdict.reason)
        chosen = next(each for each in given if each.as_value() == verdict)
        return BodyReturned({"workspace": chosen.model_dump(mode="json", by_alias=True)})

    async def _join(self, workspaces: list[WorkspaceReference]) -> WorkspaceReference | JoinRefused:
        verdict = join_workspaces(workspaces, await self._histories(workspaces))
        return verdict if isinstance(verdict, JoinRefused) else verdict.workspace

    async def _histories(
        self, workspaces: list[WorkspaceReference]
    ) -> Mapping[CommitId, set[CommitId]]:
        """For each ref, the others that a walk from it reaches; different places are not walked."""
        places = {(each.repository, each.branch) for each in workspaces}
        refs = list(dict.fromkeys(each.ref for each in workspaces))
        found: dict[CommitId, set[CommitId]] = {ref: {ref} for ref in refs}
        if len(places) > 1:
            return found
        repository = workspaces[0].repository
        for start in refs:
            for goal in refs:
                if goal not in found[start]:
                    walk = await self._commits.first_parents(
                        repository, start, goal, commits_max=COMMITS_MAX
                    )
                    if walk.reached:
                        found[start].add(goal)
        return found
