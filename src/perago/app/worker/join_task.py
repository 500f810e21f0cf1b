"""`perago.join`: a built-in task without a workspace that the parent serves itself.

Of the workspaces of joined tasks it returns the one whose history contains all others. It needs
lakeFS, and executors have no keys. The rule is the domain's.
"""

import asyncio
from collections.abc import Mapping
from typing import final

from pydantic import BaseModel, Field, ValidationError

from perago.app.authoring.failure import failure_reason
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_spec import WorkspaceInput
from perago.app.worker.attempts import StopOrders
from perago.app.worker.slot_budget import first_of
from perago.domain.join_workspaces import JoinRefused, join_workspaces
from perago.domain.logical_execution import CommitId, RepositoryId, WorkspaceReference
from perago.ports.lakefs import Commits
from perago.ports.task_body import (
    BodyCall,
    BodyOutcome,
    BodyRaised,
    BodyReturned,
    BodyStopped,
    TaskBody,
)

JOIN = "perago.join"
# More is refused with a text, before anything is asked: each workspace may cost one walk.
WORKSPACES_MAX = 100
# Of one walk, as for `settled`: ten pages of 1000 (1500 commits took 18 ms on lakeFS 1.86).
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
    text = f"the worker answers {JOIN}, not a task function: {params}"
    raise AssertionError(text)


JOIN_TASK = task_of(join)


@final
class JoiningBody(TaskBody):
    """Answers joins, and hands every other call on."""

    def __init__(self, beneath: TaskBody, orders: StopOrders, commits: Commits) -> None:
        self._beneath = beneath
        self._orders = orders
        self._commits = commits

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Join here; no executor is asked. Raises ServiceError when lakeFS does not answer."""
        if call.task_name != JOIN:
            return await self._beneath.run(call)
        with self._orders.for_execution(call.execution_id) as order:
            answer = asyncio.ensure_future(self._answer(call))
            try:
                await first_of(answer, order, seconds_max=call.seconds_max or None)
            finally:
                if not answer.done():
                    answer.cancel()
                    await asyncio.wait([answer])
            if not answer.cancelled():
                return answer.result()
            if order.done():
                return order.result()
            return BodyStopped(f"the join took longer than {call.seconds_max:g} seconds")

    async def _answer(self, call: BodyCall) -> BodyOutcome:
        try:
            given = JoinParams.model_validate(call.params).workspaces
        except ValidationError as error:
            return BodyRaised(failure_reason(error))
        workspaces = [each.as_value() for each in given]
        verdict = join_workspaces(workspaces, await self._histories(workspaces))
        if isinstance(verdict, JoinRefused):
            return BodyRaised(verdict.reason)
        chosen = next(each for each in given if each.as_value() == verdict.workspace)
        return BodyReturned({"workspace": chosen.model_dump(mode="json", by_alias=True)})

    async def _histories(
        self, workspaces: list[WorkspaceReference]
    ) -> Mapping[CommitId, set[CommitId]]:
        """For the refs that were tried, the others in their histories: at most one walk a ref.

        Ends with the ref that holds all others, or when two were found of which neither holds the
        other. Refs on different branches are not walked, because the rule refuses them anyway.
        """
        refs = list(dict.fromkeys(each.ref for each in workspaces))
        if len({(each.repository, each.branch) for each in workspaces}) > 1:
            return {}
        repository = workspaces[0].repository
        top = lowest = refs[0]
        histories = {top: {top}}
        # Downwards from the first ref. A walk that reaches its goal goes on from there.
        while missing := [ref for ref in refs if ref not in histories[top]]:
            found = await self._walk(repository, lowest, goal := missing[-1])
            histories[top] |= found.intersection(refs)
            if goal not in found:
                break
            lowest = goal
        # Upwards: whatever is not below the first ref has to have it, and so on.
        while missing := [ref for ref in refs if ref not in histories[top]]:
            higher = missing[-1]
            found = await self._walk(repository, higher, top)
            histories[higher] = found.intersection(refs)
            if top not in found:
                break
            histories[higher] |= histories[top]
            top = higher
        return histories

    async def _walk(
        self, repository: RepositoryId, start: CommitId, goal: CommitId
    ) -> set[CommitId]:
        walk = await self._commits.first_parents(repository, start, goal, commits_max=COMMITS_MAX)
        return {commit.commit for commit in walk.commits}
