"""`perago.join`: of the workspaces of joined tasks the one whose history contains all others.

`join_workspaces` is the rule: it gets the histories, and asks no server.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, cast

from pydantic import BaseModel, Field, field_validator

from perago.app.attempt.context import Attempt
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceInput
from perago.domain.attempt import as_mapping
from perago.domain.errors import BodyFailedError
from perago.domain.lakefs import CommitId, RepositoryId, WorkspaceReference
from perago.ports.lakefs import Commits

# More is refused with a text, before anything is asked: each workspace may cost one walk, so the
# worst join is 1,000 requests. Whoever has more can join the results of several joins.
WORKSPACES_MAX = 100
# Of one walk, as for `settled`: ten pages of 1000 (1500 commits took 18 ms on lakeFS 1.86).
COMMITS_MAX = 10_000


class JoinParams(BaseModel):
    """The workspaces of the joined tasks, or the whole output of the JOIN before.

    The branches of a dynamic fork get their names when it runs, so only its JOIN names them.
    """

    workspaces: Annotated[list[WorkspaceInput], Field(min_length=1, max_length=WORKSPACES_MAX)]

    @field_validator(
        "workspaces",
        mode="before",
        json_schema_input_type=list[WorkspaceInput] | dict[str, object],
    )
    @classmethod
    def _of_branches(cls, given: object) -> object:
        """Take the workspace of every branch that has one; others published nothing."""
        if not isinstance(given, Mapping):
            return given
        branches = map(as_mapping, cast("Mapping[str, object]", given).values())
        return [each["workspace"] for each in branches if "workspace" in each]


class JoinResult(BaseModel):
    """The workspace that stands for all."""

    workspace: WorkspaceInput


async def join(attempt: Attempt, params: JoinParams) -> JoinResult:
    """Join. Raises BodyFailedError with what was found on both sides."""
    workspaces = [each.as_value() for each in params.workspaces]
    histories = await _read_histories(attempt.ports.lakefs.commits, workspaces)
    verdict = join_workspaces(workspaces, histories)
    if isinstance(verdict, str):
        raise BodyFailedError(verdict)
    return JoinResult(workspace=params.workspaces[workspaces.index(verdict)])


JOIN_TASK = TaskDefinition(
    name="perago.join",
    owner_email="perago@example.com",
    description="Picks the workspace whose history contains those of all joined tasks.",
    fn=join,
    params_model=JoinParams,
    output_model=JoinResult,
    built_in=True,
)


async def _read_histories(
    commits: Commits, workspaces: list[WorkspaceReference]
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
        found = await _walk(commits, repository, lowest, goal := missing[-1])
        histories[top] |= found.intersection(refs)
        if goal not in found:
            break
        lowest = goal
    # Upwards: whatever is not below the first ref has to have it, and so on.
    while missing := [ref for ref in refs if ref not in histories[top]]:
        higher = missing[-1]
        found = await _walk(commits, repository, higher, top)
        histories[higher] = found.intersection(refs)
        if top not in found:
            break
        histories[higher] |= histories[top]
        top = higher
    return histories


async def _walk(
    commits: Commits, repository: RepositoryId, start: CommitId, goal: CommitId
) -> set[CommitId]:
    walk = await commits.first_parents(repository, start, goal, commits_max=COMMITS_MAX)
    return {commit.commit for commit in walk.commits}


def join_workspaces(
    workspaces: Sequence[WorkspaceReference],
    histories: Mapping[CommitId, Collection[CommitId]],
) -> WorkspaceReference | str:
    """Pick the workspace that contains all others, or say what was found on both sides.

    `histories` names for each ref the refs that its history contains; a ref contains itself.
    """
    first = workspaces[0]
    for other in workspaces:
        if (other.repository, other.branch) != (first.repository, first.branch):
            return f"{_named(first)} and {_named(other)} are different branches"
    refs = tuple(dict.fromkeys(workspace.ref for workspace in workspaces))
    best, held = first, frozenset[CommitId]()
    for workspace in workspaces:
        contained = frozenset(histories.get(workspace.ref, ())) | {workspace.ref}
        if contained.issuperset(refs):
            return workspace
        if len(contained.intersection(refs)) > len(held):
            best, held = workspace, contained.intersection(refs)
    inside = ", ".join(ref for ref in refs if ref in held)
    outside = ", ".join(ref for ref in refs if ref not in held)
    return (
        f"no workspace of {_named(first)} contains all others: "
        f"{best.ref} contains [{inside}] and lacks [{outside}]"
    )


def _named(workspace: WorkspaceReference) -> str:
    return f"{workspace.repository}/{workspace.branch}"
