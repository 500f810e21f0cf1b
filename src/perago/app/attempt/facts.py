"""What is read of the target before a policy decides: head, history, and what has moved."""

from dataclasses import dataclass

from perago.app.attempt.context import Attempt, AttemptPorts, Target
from perago.domain.errors import PublicationRefusedError
from perago.domain.logical_execution import (
    BranchName,
    CommitId,
    FirstParentWalk,
    RepositoryId,
    StagedReference,
)
from perago.domain.paths import ACTIONS_PREFIX, listing_prefix
from perago.domain.publication import Isolation, PublicationFacts

DIRTY_OBJECTS_NAMED_MAX = 5  # paths are long, and Conductor gets 500 characters of the reason


@dataclass(frozen=True, slots=True)
class ToPublish:
    """The staged commit, None when nothing changed, and what it removes if the policy asks."""

    staged: StagedReference | None
    removed: str | None


async def read_facts(
    ports: AttemptPorts,
    attempt: Attempt,
    target: Target,
    to_publish: ToPublish,
    walk: FirstParentWalk | None = None,
) -> PublicationFacts:
    """Read the head, its history down to the input, and under prefix isolation what moved."""
    walk = walk or await read_walk(ports, target)
    moved = walk.reached and walk.head.commit != target.workspace.ref
    untouched = False
    if target.isolation is Isolation.PREFIX and moved:
        untouched = await _is_untouched(ports, target, walk.head.commit)
    return PublicationFacts(
        workspace=target.workspace,
        walk=walk,
        staged=to_publish.staged,
        logical_task_key=attempt.row.logical_task_key,
        execution_key=target.key,
        isolation=target.isolation,
        untouched=untouched,
        removed=to_publish.removed,
        require_ownership=attempt.settings.require_ownership,
    )


async def read_first_walk(ports: AttemptPorts, target: Target) -> FirstParentWalk | None:
    """The look that can be made beside the decision: the fence compares its head in the server.

    Under prefix isolation the publishers of one branch take turns, and each looks in its own.
    """
    if target.isolation is Isolation.PREFIX:
        return None
    return await read_walk(ports, target)


async def read_walk(ports: AttemptPorts, target: Target) -> FirstParentWalk:
    """The target's head and its history down to the input, as far as the policy looks."""
    workspace = target.workspace
    commits_read_max = target.level.shape.commits_read_max
    if commits_read_max == 1:
        head = await ports.lakefs.branches.head(workspace.repository, workspace.branch)
        return FirstParentWalk((head,), reached=head.commit == workspace.ref)
    return await ports.lakefs.commits.first_parents(
        workspace.repository, workspace.branch, workspace.ref, commits_max=commits_read_max
    )


async def _is_untouched(ports: AttemptPorts, target: Target, head: CommitId) -> bool:
    """Whether neither the prefix nor anything reserved differs between the input and the head."""
    prefix = listing_prefix(target.prefix)
    mine, reserved = await ports.concurrency.together(
        _differs(ports, target, head, prefix),
        _differs(ports, target, head, ACTIONS_PREFIX),
    )
    return not (mine or reserved)


async def _differs(ports: AttemptPorts, target: Target, head: CommitId, prefix: str) -> bool:
    workspace = target.workspace
    page = await ports.lakefs.commits.diff_page(
        workspace.repository, workspace.ref, head, prefix=prefix, amount=1
    )
    return bool(page.changes)


async def refuse_dirty_target(
    ports: AttemptPorts, repository: RepositoryId, branch: BranchName
) -> None:
    """Raise with the names of uncommitted objects on the target, if there are any."""
    page = await ports.lakefs.commits.uncommitted_page(
        repository, branch, amount=DIRTY_OBJECTS_NAMED_MAX
    )
    if page.changes:
        names = ", ".join(change.path for change in page.changes)
        more = ", ..." if page.more else ""
        address = f"lakefs://{repository}/{branch}"
        text = (
            f"{address} has uncommitted objects ({names}{more}); `lakectl branch reset {address}`"
        )
        raise PublicationRefusedError(text, code="PRG-F013")
