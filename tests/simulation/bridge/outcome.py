"""What is left at the end of a transcript: branch, history, private names, rows, ends."""

from collections.abc import Sequence

from tests.simulation.actors import Actor
from tests.simulation.bridge.steps import Outcome
from tests.simulation.bridge.words import Words
from tests.simulation.scene import MAIN

from perago.domain.attempt import AttemptStatus
from perago.domain.logical_execution import CommitId, FirstParentWalk, RepositoryId
from perago.ports.conductor import WorkflowRecord
from perago.ports.installations import ConductorInstallation, LakeFSInstallation
from perago.testing.definitions import as_object

COMMITS_MAX = 1000


async def outcome_of(
    lakefs: LakeFSInstallation,
    conductor: ConductorInstallation,
    place: tuple[RepositoryId, CommitId, str],
    words: Words,
) -> Outcome:
    """Everything that anybody can see afterwards; `place` is repository, input and workflow."""
    repository, given, workflow = place
    walk = await lakefs.commits.first_parents(repository, MAIN, given, commits_max=COMMITS_MAX)
    objects = await lakefs.objects.list_page(repository, MAIN, prefix="")
    paths = [entry.path for entry in objects.entries]
    branches = words.in_order(await lakefs.branches.list_page(repository, ""))
    tags = words.in_order(await lakefs.tags.list_page(repository, ""))
    run = await conductor.workflows.read(workflow)
    assert run is not None, f"the workflow {workflow} is gone"
    return {
        "history": [words.of(record) for record in walk.commits],
        "reached": walk.reached,
        "tree": {path: await lakefs.objects.read(repository, MAIN, path) for path in paths},
        "branches": [words.of(each) for each in zip(branches.names, branches.heads, strict=True)],
        "tags": [words.of(tag) for tag in tags.tags],
        "workflow": run.status,
        "end": end_in_words(run, walk, given),
        "rows": [words.of(row) for row in run.attempts],
    }


def end_in_words(run: WorkflowRecord, walk: FirstParentWalk, given: CommitId) -> str:
    """Where the accepted outputs are, seen from the head of the target branch."""
    history = [record.commit for record in walk.commits]
    told = [f"{run.status.value}", f"{len(history) - 1} above the input"]
    for row in run.attempts:
        workspace = as_object(row.output_data.get("workspace") or {})
        ref = CommitId(str(workspace.get("ref")))
        if row.snapshot.status is not AttemptStatus.COMPLETED or not workspace:
            continue
        if ref not in history:
            told.append("the accepted commit is lost")
        elif ref == given:
            told.append("the input was accepted")
        elif ref == history[0]:
            told.append("the head was accepted")
        else:
            told.append("a commit below the head was accepted")
    return ", ".join(told)


def ends_of(actors: Sequence[Actor], words: Words) -> Outcome:
    """How each process ended."""
    return {actor.name: words.of(_end_of(actor)) for actor in actors}


def _end_of(actor: Actor) -> object:
    if actor.report is None:
        return ("died" if not actor.alive else "stands", *actor.judged)
    return (actor.report.update, actor.report.recorded, actor.report.error)
