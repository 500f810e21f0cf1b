"""May this staged commit be published? Asked of what the commit is, never of what it says.

Whoever may write tags or the staging branch (a Spark body holds keys) can put any metadata on any
commit. History and content cannot be claimed.
"""

from perago.app.attempt.read_target import first_difference_outside
from perago.app.attempt.world import World
from perago.domain.attempt import AttemptSnapshot
from perago.domain.errors import PublicationRefusedError
from perago.domain.references import CommitId, WorkspaceReference
from perago.domain.staging_branch_name import is_staging_branch_of

STAGED_COMMITS_MAX = 1000
"""One page of a walk. A result has at most 25 pieces below it; a Spark body may commit as well."""

CODE = "PRG-F025"


async def refuse_unless_on_input(
    world: World, workspace: WorkspaceReference, staged: CommitId
) -> None:
    """The input is among the first parents: a merge of anything else is not the staged tree."""
    walk = await world.lakefs.commits.first_parents(
        workspace.repository, staged, workspace.ref, commits_max=STAGED_COMMITS_MAX
    )
    if not walk.reached:
        text = f"staged commit {staged} does not stand on the input {workspace.ref}"
        raise PublicationRefusedError(f"{text}; nothing was published", code=CODE)


async def refuse_foreign_changes(
    world: World, workspace: WorkspaceReference, staged: CommitId, prefix: str
) -> None:
    """It differs from the input below the prefix only, and in nothing reserved."""
    path = await first_difference_outside(
        world, workspace.repository, workspace.ref, staged, prefix
    )
    if path is not None:
        text = f"staged commit {staged} changes {path}, which is outside prefix {prefix} or"
        raise PublicationRefusedError(f"{text} reserved; nothing was published", code=CODE)


def refuse_foreign_branch(attempt: AttemptSnapshot, staged: CommitId, branch: str) -> None:
    """It names a staging branch of this task: that one is deleted when the task has ended."""
    if not is_staging_branch_of(branch, attempt):
        text = f"staged commit {staged} names branch {branch!r}, expected one of this task"
        raise PublicationRefusedError(f"{text}; nothing was published", code=CODE)
