"""What is left at the end of a transcript: branch, history, private names, rows, ends."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from tests.simulation.actors import Actor
from tests.simulation.bridge.steps import Outcome
from tests.simulation.bridge.words import Words
from tests.simulation.scene import MAIN

from perago.domain.attempt import AttemptRecord, AttemptStatus, WorkflowSnapshot, as_mapping
from perago.domain.lakefs import CommitId, FirstParentWalk, RepositoryId
from perago.ports.conductor import WorkflowRecord
from perago.ports.installations import ConductorInstallation, LakeFSInstallation

COMMITS_MAX = 1000
JOIN = "JOIN"
# What ends the workflow of a fork when a branch ends so.
FAILED_BRANCH = frozenset(
    {AttemptStatus.FAILED, AttemptStatus.FAILED_WITH_TERMINAL_ERROR, AttemptStatus.TIMED_OUT}
)
# How a JOIN ends whose branch failed: `with_one_end_of_a_join` says which of the two when.
ENDS_OF_A_JOIN = frozenset({AttemptStatus.FAILED, AttemptStatus.CANCELED})


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
    paths = [entry.path for entry in objects.items]
    branches = words.in_order(await lakefs.branches.list_page(repository, "", show_hidden=True))
    tags = words.in_order(await lakefs.tags.list_page(repository, ""))
    run = await conductor.workflows.read(workflow)
    assert run is not None, f"the workflow {workflow} is gone"
    return {
        "history": [words.of(record) for record in walk.commits],
        "reached": walk.reached,
        "tree": {path: await lakefs.objects.read(repository, MAIN, path) for path in paths},
        "branches": [words.of(branch) for branch in branches.items],
        "tags": [words.of(tag) for tag in tags.items],
        "workflow": run.status,
        "end": end_in_words(run, walk, given),
        "rows": [words.of(row) for row in with_one_end_of_a_join(run.attempts)],
    }


def with_one_end_of_a_join(rows: Sequence[AttemptRecord]) -> Sequence[AttemptRecord]:
    """The rows; a JOIN that waited for a branch that failed is CANCELED, whichever it was.

    A real Conductor ends that JOIN in one of two ways. The request that fails the branch writes the
    row, then decides that the workflow has failed, and cancels every open row: the JOIN is CANCELED
    without a reason. A thread of the server looks at each JOIN beside that. If it looks between the
    write and the decision, the JOIN is FAILED with the reason of the branch. Nobody outside decides
    which comes first. The workflow, the output of the JOIN and every other row are the same, and
    they are compared.
    """
    ended = {row.snapshot.reference_name: row.snapshot.status for row in rows}
    return [_canceled(row) if _has_two_ends(row, ended) else row for row in rows]


def _has_two_ends(row: AttemptRecord, ended: Mapping[str, AttemptStatus]) -> bool:
    if row.snapshot.task_type != JOIN or row.snapshot.status not in ENDS_OF_A_JOIN:
        return False
    waited_for = cast("Sequence[str]", row.input_data.get("joinOn", ()))
    return any(ended.get(name) in FAILED_BRANCH for name in waited_for)


def _canceled(join: AttemptRecord) -> AttemptRecord:
    snapshot = replace(join.snapshot, status=AttemptStatus.CANCELED)
    return replace(join, snapshot=snapshot, reason=None)


def has_open_join(run: WorkflowSnapshot) -> bool:
    """Whether the workflow has ended and one of its JOINs has not.

    A thread of the server that had read the JOIN before the workflow ended writes it once more.
    """
    joins = [row for row in run.tasks if row.task_type == JOIN]
    return run.status.is_terminal and not all(row.status.is_terminal for row in joins)


def end_in_words(run: WorkflowRecord, walk: FirstParentWalk, given: CommitId) -> str:
    """Where the accepted outputs are, seen from the head of the target branch."""
    history = [record.commit for record in walk.commits]
    told = [f"{run.status.value}", f"{len(history) - 1} above the input"]
    for row in run.attempts:
        workspace = as_mapping(row.output_data.get("workspace") or {})
        ref = CommitId(str(workspace.get("ref")))
        on_target = workspace.get("branch") == MAIN  # a run branch goes with its run
        if row.snapshot.status is not AttemptStatus.COMPLETED or not on_target:
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
