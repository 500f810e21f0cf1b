"""Each code of fences, services and unknown outcomes, provoked by what somebody did.

The mistake is made in a world of attempts; the code is read where its reader finds it: in the
reason that Conductor got, or in the error of the attempt when it may not say anything any more.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.people import merge
from tests.unit.app.attempt.fault_world import TASK, FaultWorld, reason_of

from perago.adapters.memory.hooks import has_lua
from perago.app.authoring.failure import error_code, error_is_terminal, failure_reason
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.domain.error_codes import Retried, error_codes
from perago.domain.errors import PeragoError
from perago.domain.hand_back import HAND_BACKS_MAX
from perago.domain.names import STAGING_BRANCH_PREFIX
from perago.domain.outcome import MergeConflict, MergeRefused
from perago.domain.paths import ACTIONS_PREFIX
from perago.domain.policy import PolicySetting
from perago.ports.errors import (
    AccessDeniedError,
    BranchExistsError,
    DamagedObjectError,
    RequestRefusedError,
    UnavailableError,
)
from perago.testing.faults import (
    Fault,
    always,
    answer,
    crash,
    lose_answer,
    meanwhile,
    refuse,
)

SETTLED, LINEAGE = PolicySetting.SETTLED, PolicySetting.LINEAGE
HEAD_PARENT, AUTO = PolicySetting.HEAD_PARENT, PolicySetting.AUTO
MERGE, RELOCATE, CREATE_TAG = "branches.merge", "branches.relocate", "tags.create"
TOO_MANY_COMMITS = 1026
REFUSING_HOOK = b"""
name: other
on: {pre-merge: {}}
hooks: [{id: other, type: lua, properties: {script: 'error("not on fridays")'}}]
"""


class Told(NamedTuple):
    """What the reader of an error reads, and the world in which it happened."""

    world: FaultWorld
    reason: str


Mistake = Callable[[Path], Awaitable[Told]]
MISTAKES: dict[str, Mistake] = {}


def mistake(code: str) -> Callable[[Mistake], Mistake]:
    def keep(scene: Mistake) -> Mistake:
        MISTAKES[code] = scene
        return scene

    return keep


async def told(world: FaultWorld, faults: Sequence[Fault] = ()) -> Told:
    """Run one attempt; return what its reader reads."""
    report = await world.report(*faults)
    assert report.error is not None
    row = f"{world.workflow} {TASK}"
    reason = failure_reason(report.error).replace("WORKFLOW REFERENCE", row)
    if report.update is not None:
        assert reason_of(report) == reason
    code = error_code(report.error)
    assert code in reason
    retried = error_codes()[code].retried
    if retried is not Retried.DOES_NOT_APPLY:
        ends = retried is Retried.NO or (
            retried is Retried.NOT_UNDER_SETTLED and world.policy in {SETTLED, AUTO}
        )
        assert error_is_terminal(report.error) == ends
    return Told(world, reason)


async def retried(world: FaultWorld, fault: Fault) -> FaultWorld:
    """A world whose first attempt died, with the next one waiting."""
    await world.start()
    await world.attempt(world.worker([fault]))
    await world.lose_lease()
    return world


@mistake("PRG-F001")
async def the_workflow_is_terminated_while_the_body_runs(root: Path) -> Told:
    world = await FaultWorld(root, HEAD_PARENT, fenced=False).started()
    ended = meanwhile(
        lambda: world.conductor.terminate(world.workflow, "enough"), before="branches.create"
    )
    return await told(world, [ended])


@mistake("PRG-F003")
async def the_head_has_no_owner_and_owners_are_required(root: Path) -> Told:
    world = await FaultWorld(root, HEAD_PARENT, fenced=False, require_ownership=True).started()
    world.human()
    return await told(world)


@mistake("PRG-F004")
async def the_workflow_is_older_than_a_thousand_commits(root: Path) -> Told:
    world = await FaultWorld(root, LINEAGE, fenced=False).started()
    for _ in range(TOO_MANY_COMMITS):
        world.repository.commit({})
    return await told(world)


@mistake("PRG-F025")
async def an_operator_decides_with_a_commit_of_his_own(root: Path) -> Told:
    world = await retried(FaultWorld(root, SETTLED), crash(after=CREATE_TAG))
    (tag,) = world.repository.tags()
    decided = world.lakefs.repository(world.repository.id).commit_of(tag).record
    world.repository.branch("his")
    files = {"elsewhere/his.txt": b"his"}
    forged = world.repository.commit(files, "his", metadata=decided.metadata)
    world.repository.delete_tag(tag)
    world.repository.tag(tag, forged)
    return await told(world)


@mistake("PRG-F007")
async def others_commit_elsewhere_again_and_again(root: Path) -> Told:
    spec = WorkspaceSpec(prefix="data", isolation="prefix")
    world = await FaultWorld(root, SETTLED, spec=spec).started()
    paths = map("elsewhere/{}".format, count())
    return await told(world, [always(meanwhile(lambda: world.human(next(paths)), before="merge"))])


async def told_for(world: FaultWorld, **changes: object) -> Told:
    """The reason of a retry whose input expressions resolve to something else."""
    worker = world.worker()
    record = await worker.poll(TASK)
    assert record is not None
    given = {**record.input_data, **changes}
    report = await world.drive(worker.run(replace(record, input_data=given)))
    assert report.error is not None
    return Told(world, failure_reason(report.error))


@mistake("PRG-F008")
async def a_retry_resolves_to_another_input(root: Path) -> Told:
    spec = WorkspaceSpec(prefix="data", isolation="prefix")
    world = await retried(FaultWorld(root, SETTLED, spec=spec), crash(before="merge"))
    later = world.human("elsewhere/later.txt")
    return await told_for(world, workspace=world.workspace(ref=later))


@mistake("PRG-F026")
async def a_retry_resolves_to_other_params(root: Path) -> Told:
    world = await retried(FaultWorld(root, SETTLED), crash(after="merge"))
    return await told_for(world, params={"text": "other"})


@mistake("PRG-F009")
async def a_task_of_a_running_workflow_is_to_be_reset(root: Path) -> Told:
    world = await FaultWorld(root, SETTLED).started()
    with pytest.raises(PeragoError) as caught:
        await world.reset_task()
    return Told(world, failure_reason(caught.value))


@mistake("PRG-F010")
async def another_hook_refuses_the_merge(root: Path) -> Told:
    world = FaultWorld(root, HEAD_PARENT, fenced=False)
    world.input = world.repository.commit({f"{ACTIONS_PREFIX}other.yaml": REFUSING_HOOK})
    return await told(await world.started())


@mistake("PRG-F011")
async def a_readme_stands_among_the_hook_files(root: Path) -> Told:
    world = FaultWorld(root, HEAD_PARENT, fenced=False)
    readme = {f"{ACTIONS_PREFIX}README.md": b"# our hooks"}
    world.input = world.repository.commit(readme, unchecked=True)
    return await told(await world.started())


@mistake("PRG-F014")
async def the_target_of_a_replacement_is_protected(root: Path) -> Told:
    world = FaultWorld(root, HEAD_PARENT, fenced=False)
    world.repository.protect()
    return await told(await retried(world, crash(after=MERGE)))


@mistake("PRG-F015")
async def the_prefix_conflicts_with_a_head_that_moved(root: Path) -> Told:
    spec = WorkspaceSpec(prefix="data", isolation="prefix")
    world = await FaultWorld(root, SETTLED, spec=spec).started()
    moved = meanwhile(world.human, before=CREATE_TAG)
    return await told(world, [moved, answer("onto-head", MergeConflict("conflict"))])


@mistake("PRG-U002")
async def lakefs_is_away_whenever_the_row_is_polled(root: Path) -> Told:
    world = await FaultWorld(root, SETTLED, patience_seconds=0).started()
    away = [refuse("repositories.read", UnavailableError("connection refused"))]
    for _ in range(HAND_BACKS_MAX):
        await world.attempt(world.worker(away))
        world.clock.advance(1000)
    return await told(world, away)


@mistake("PRG-F027")
async def an_operator_merges_a_staging_branch_by_hand(root: Path) -> Told:
    world = FaultWorld(root, SETTLED)
    staging = world.repository.branch(f"{STAGING_BRANCH_PREFIX}1")
    world.repository.commit({"data/half.txt": b"half"}, staging)
    with pytest.raises(RequestRefusedError) as refused:
        merge(world.repository, staging)
    return Told(world, str(refused.value))


@mistake("PRG-L002")
async def the_input_names_a_branch_that_is_not_there(root: Path) -> Told:
    world = FaultWorld(root, SETTLED)
    await world.start(world.workspace(branch="mian"))
    return await told(world)


@mistake("PRG-L003")
async def the_server_refuses_the_merge_with_unknown_words(root: Path) -> Told:
    world = await FaultWorld(root, HEAD_PARENT, fenced=False).started()
    return await told(world, [answer(MERGE, MergeRefused("not today"))])


@mistake("PRG-L004")
async def the_staging_branch_of_another_execution_has_the_name(root: Path) -> Told:
    world = await FaultWorld(root, HEAD_PARENT, fenced=False).started()
    return await told(world, [refuse("branches.create", BranchExistsError("it exists"))])


@mistake("PRG-L007")
async def the_user_may_not_write(root: Path) -> Told:
    world = await FaultWorld(root, HEAD_PARENT, fenced=False).started()
    return await told(world, [refuse("branches.create", AccessDeniedError("not allowed"))])


@mistake("PRG-L008")
async def the_server_does_not_answer_a_read(root: Path) -> Told:
    world = await FaultWorld(root, HEAD_PARENT, fenced=False).started()
    refused = UnavailableError("nothing was sent")
    return await told(world, [always(refuse("branches.create", refused))])


@mistake("PRG-L009")
async def the_answer_to_a_staging_commit_is_lost(root: Path) -> Told:
    world = FaultWorld(root, HEAD_PARENT, fenced=False, patience_seconds=0)
    return await told(await world.started(), [lose_answer("commits.commit")])


@mistake("PRG-L010")
async def an_object_arrives_damaged(root: Path) -> Told:
    world = await FaultWorld(root, HEAD_PARENT, fenced=False).started()
    return await told(world, [refuse("objects.download", DamagedObjectError("data/kept.txt"))])


@mistake("PRG-L011")
async def the_repository_is_read_only(root: Path) -> Told:
    world = FaultWorld(root, HEAD_PARENT, fenced=False)
    world.repository.make_read_only()
    return await told(await world.started())


@pytest.mark.parametrize("code", MISTAKES)
async def test_what_an_operator_did_is_told_with_its_code(code: str, tmp_path: Path) -> None:
    if code == "PRG-F010":
        assert has_lua(), "the other hook is a script"
    assert code in (await MISTAKES[code](tmp_path)).reason
