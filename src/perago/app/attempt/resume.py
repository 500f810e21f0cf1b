"""Finishing what was decided before: no download, no body, the result comes from the decision."""

from collections.abc import Mapping
from dataclasses import dataclass

from perago.app.attempt.decide import SettledDecision, decision_of, read_decision
from perago.app.attempt.dispatch import Scope
from perago.app.attempt.publish import Publication, publish
from perago.app.attempt.world import World
from perago.domain import settled
from perago.domain.commit_metadata import (
    INPUT_REF,
    LOGICAL_EXECUTION_KEY,
    STAGING_COMMIT,
)
from perago.domain.errors import DecidedOnOtherInputError
from perago.domain.logical_execution import decision_tag, decision_tags_of_chain
from perago.domain.publication_facts import Isolation, PublicationFacts
from perago.domain.references import CommitId, FirstParentWalk, WorkspaceReference
from perago.ports.progress import Phase


@dataclass(frozen=True, slots=True)
class Finished:
    """The published commit and the result that belongs to it."""

    ref: CommitId
    result: Mapping[str, object]


async def finish_decision(
    world: World, scope: Scope, decision: SettledDecision, walk: FirstParentWalk | None = None
) -> Finished:
    """Publish the decision, or adopt the publication that is already there.

    `walk` is the target as it was read beside the decision, if it was.
    """
    staged = None if decision.noop else decision.staged
    publication = await publish(world, scope, staged, walk)
    return Finished(publication.ref, await _result(world, scope, decision, publication))


async def resume(world: World, scope: Scope, decided: CommitId) -> Finished:
    """Finish the decision of an earlier attempt of this execution."""
    decision = await read_decision(world, scope, decided)
    scope.traces.staging = (decision.staged.repository, decision.staged.branch)
    scope.traces.staging_may_go = False
    scope.traces.decided = True
    world.progress.phase(Phase.RESUMED, {"commit": decided, "noop": decision.noop})
    return await finish_decision(world, scope, decision)


async def find_decision_on_other_input(world: World, scope: Scope) -> Finished | None:
    """Under prefix isolation a retry may meet decisions of its own chain on other inputs.

    Published already: it is the output. None of them published: terminal, because neither they
    nor this attempt may win now. A first attempt has no earlier ones.
    """
    ground = scope.ground
    first = scope.dispatch.attempt.retry_count == 0
    if first or ground.isolation is not Isolation.PREFIX or ground.key is None:
        return None
    place, mine = ground.workspace, decision_tag(ground.key)
    page = await world.lakefs.tags.list_page(place.repository, decision_tags_of_chain(ground.key))
    others = [tag.commit for tag in page.tags if tag.name != mine]
    for decided in others:
        finished = await _published_elsewhere(world, scope, decided)
        if finished is not None:
            return finished
    if others:
        text = (
            f"an earlier attempt decided {others[0]} on another input, this one has {place.ref}; "
            f"{settled.start_anew(place.repository, place.branch)}"
        )
        raise DecidedOnOtherInputError(text)
    return None


async def _published_elsewhere(world: World, scope: Scope, decided: CommitId) -> Finished | None:
    place = scope.ground.workspace
    record = await world.lakefs.commits.read(place.repository, decided)
    other = CommitId(record.metadata.get(INPUT_REF, ""))
    if not other:
        return None  # not a staged commit of ours: it was never published
    walk = await world.lakefs.commits.first_parents(
        place.repository, place.branch, other, commits_max=settled.FIRST_PARENT_COMMITS_MAX
    )
    found = settled.find_publication(
        PublicationFacts(
            workspace=WorkspaceReference(place.repository, place.branch, other),
            walk=walk,
            staged=None,
            logical_task_key=scope.dispatch.attempt.logical_task_key,
            execution_key=record.metadata.get(LOGICAL_EXECUTION_KEY),
            isolation=Isolation.PREFIX,
        )
    )
    if found is None:
        return None
    staged = found.metadata.get(STAGING_COMMIT, decided)
    if staged != decided:  # a decision was removed and made again: what was published counts
        record = await world.lakefs.commits.read(place.repository, staged)
    decision = await decision_of(world, scope, record, input_ref=other)
    return Finished(found.commit, decision.result)


async def _result(
    world: World, scope: Scope, decision: SettledDecision, publication: Publication
) -> Mapping[str, object]:
    """The result of what is on the target: an adopted commit may be of an older decision."""
    staged = publication.adopted.get(STAGING_COMMIT, decision.staged.commit)
    if staged == decision.staged.commit:
        return decision.result
    place = scope.ground.workspace
    record = await world.lakefs.commits.read(place.repository, staged)
    return (await decision_of(world, scope, record, input_ref=place.ref)).result
