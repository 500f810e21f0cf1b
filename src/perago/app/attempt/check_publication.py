"""What a merge has made is looked at once: does it stand where the fence had to put it?

The publication stands whatever is found; what is found ends the attempt.
"""

from perago.app.attempt.dispatch import Scope
from perago.app.attempt.world import World
from perago.domain.errors import FenceNotTrustedError
from perago.domain.publication_effects import Relocate
from perago.domain.publication_facts import Isolation
from perago.domain.publication_plan import WorkspacePublicationPlan
from perago.domain.publication_policy import Policy
from perago.domain.references import CommitId, CommitRecord
from perago.ports.errors import UnavailableError

READS_MAX = 5
PAUSE_SECONDS = 0.1
DIFFERENCES_NAMED_MAX = 5


async def check_publication(
    world: World,
    scope: Scope,
    plan: WorkspacePublicationPlan,
    ref: CommitId,
    *,
    prepared: CommitId,
) -> None:
    """After a merge under the fence: its parent must be the expected head.

    Anything else means that the server did not run the fence: the publication stands, the
    attempt fails, and the repository counts as unfenced from now on.
    """
    if isinstance(plan.effect, Relocate) or not plan.level.fenced:
        return
    record = await _read_surely(world, plan, ref)
    if record.parents != (plan.base,):
        world.lakefs.trust.distrust(plan.repository)
        text = f"fence did not run: {ref} stands on {record.parents}, expected {plan.base}"
        raise _failed(plan, text, "PRG-F023")
    if scope.ground.isolation is Isolation.PREFIX:
        await check_tree(world, plan, prepared, record)


async def check_tree(
    world: World, plan: WorkspacePublicationPlan, prepared: CommitId, published: CommitRecord
) -> None:
    """The published tree is exactly the prepared one: the two metaranges are equal."""
    expected = await _read_surely(world, plan, prepared)
    if expected.metarange == published.metarange:
        return
    page = await world.lakefs.commits.diff_page(
        plan.repository, prepared, published.commit, prefix="", amount=DIFFERENCES_NAMED_MAX
    )
    names = ", ".join(change.path for change in page.changes) + (", ..." if page.more else "")
    text = f"{published.commit} differs from {prepared}, which was to be published, in: {names}"
    raise _failed(plan, text, "PRG-F024")


def _failed(plan: WorkspacePublicationPlan, text: str, code: str) -> FenceNotTrustedError:
    """Under `settled` terminal: a retry would find the publication by its key, and hide this."""
    command = f"`perago fence verify {plan.repository} {plan.branch}`"
    text = f"{text}; it stands: look at the branch, and run {command}"
    return FenceNotTrustedError(text, code=code, terminal=plan.policy is Policy.SETTLED)


async def _read_surely(world: World, plan: WorkspacePublicationPlan, ref: CommitId) -> CommitRecord:
    """A publication that is there is not failed for one lost answer of a read."""
    for number in range(1, READS_MAX):
        try:
            return await world.lakefs.commits.read(plan.repository, ref)
        except UnavailableError:
            await world.clock.sleep(PAUSE_SECONDS * number)
    return await world.lakefs.commits.read(plan.repository, ref)
