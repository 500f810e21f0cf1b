"""What the target looks like now: the facts a policy is told, in as few requests as it needs."""

from perago.app.attempt.dispatch import Scope
from perago.app.attempt.world import World
from perago.domain import lineage, settled
from perago.domain.publication_facts import Isolation, PublicationFacts
from perago.domain.publication_policy import Policy
from perago.domain.references import CommitId, FirstParentWalk, RepositoryId, StagedReference
from perago.domain.reserved_paths import ACTIONS_PREFIX


async def read_facts(
    world: World,
    scope: Scope,
    staged: StagedReference | None,
    walk: FirstParentWalk | None = None,
) -> PublicationFacts:
    """Read the head, its history down to the input, and under prefix isolation what moved."""
    ground = scope.ground
    walk = walk or await read_walk(world, scope)
    moved = walk.reached and walk.head.commit != ground.workspace.ref
    untouched = False
    if ground.isolation is Isolation.PREFIX and moved:
        untouched = await _is_untouched(world, scope, walk.head.commit)
    return PublicationFacts(
        workspace=ground.workspace,
        walk=walk,
        staged=staged,
        logical_task_key=scope.dispatch.attempt.logical_task_key,
        execution_key=ground.key,
        isolation=ground.isolation,
        untouched=untouched,
        require_ownership=scope.dispatch.settings.require_ownership,
    )


async def read_first_walk(world: World, scope: Scope) -> FirstParentWalk | None:
    """The look that can be made beside the decision: the fence compares its head in the server.

    Under prefix isolation the publishers of one branch take turns, and each looks in its own.
    """
    if scope.ground.isolation is Isolation.PREFIX:
        return None
    return await read_walk(world, scope)


async def read_walk(world: World, scope: Scope) -> FirstParentWalk:
    """One request where the head is the input; `head-parent` never asks for more than the head."""
    place = scope.ground.workspace
    policy = scope.ground.level.policy
    if policy is Policy.HEAD_PARENT:
        head = await world.lakefs.branches.head(place.repository, place.branch)
        return FirstParentWalk((head,), reached=head.commit == place.ref)
    bound = {
        Policy.LINEAGE: lineage.FIRST_PARENT_COMMITS_MAX + 1,
        Policy.SETTLED: settled.FIRST_PARENT_COMMITS_MAX,
    }[policy]
    return await world.lakefs.commits.first_parents(
        place.repository, place.branch, place.ref, commits_max=bound
    )


async def _is_untouched(world: World, scope: Scope, head: CommitId) -> bool:
    """Whether neither the prefix nor anything reserved differs between the input and the head."""
    prefix = object_prefix(scope.ground.prefix)
    mine, reserved = await world.concurrency.together(
        _differs(world, scope, head, prefix), _differs(world, scope, head, ACTIONS_PREFIX)
    )
    return not (mine or reserved)


async def _differs(world: World, scope: Scope, head: CommitId, prefix: str) -> bool:
    place = scope.ground.workspace
    page = await world.lakefs.commits.diff_page(
        place.repository, place.ref, head, prefix=prefix, amount=1
    )
    return bool(page.changes)


def object_prefix(prefix: str) -> str:
    """The string all object paths of a workspace start with; its slash keeps siblings out."""
    return "" if prefix == "/" else f"{prefix}/"


# Behind every path below a prefix that anybody writes; listings go on after it.
_END_OF_PREFIX = "\U0010ffff" * 4


async def first_difference_outside(
    world: World, repository: RepositoryId, left: CommitId, right: CommitId, prefix: str
) -> str | None:
    """An object that differs though a task with this prefix has no business there, or None.

    Asks only before and behind the prefix, and for reserved objects inside, so the answer costs
    the same however much differs inside.
    """

    async def first(*, below: str = "", after: str = "") -> str | None:
        page = await world.lakefs.commits.diff_page(
            repository, left, right, prefix=below, after=after, amount=1
        )
        return page.changes[0].path if page.changes else None

    inside = object_prefix(prefix)
    if ACTIONS_PREFIX.startswith(inside) or inside.startswith(ACTIONS_PREFIX):
        reserved = await first(below=ACTIONS_PREFIX)
        if reserved is not None or not inside:
            return reserved
    before = await first()
    if before is None or not before.startswith(inside):
        return before
    return await first(after=inside + _END_OF_PREFIX)
