"""Each code of fences, services and unknown outcomes, provoked by what somebody did.

The mistake is made in a harness of attempts; the code is read where its reader finds it: in the
reason that Conductor got, or in the error of the attempt when it may not say anything any more.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.people import merge
from tests.unit.app.attempt.attempt_harness import AttemptHarness, reason_of
from tests.unit.app.attempt.attempt_scene import TASK

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
    """What the reader of an error reads, and the harness in which it happened."""

    harness: AttemptHarness
    reason: str


Mistake = Callable[[Path], Awaitable[Told]]
MISTAKES: dict[str, Mistake] = {}


def mistake(code: str) -> Callable[[Mistake], Mistake]:
    def keep(scene: Mistake) -> Mistake:
        MISTAKES[code] = scene
        return scene

    return keep


async def told(harness: AttemptHarness, faults: Sequence[Fault] = ()) -> Told:
    """Run one attempt; return what its reader reads."""
    report = await harness.report(*faults)
    assert report.error is not None
    row = f"{harness.workflow} {TASK}"
    reason = failure_reason(report.error).replace("WORKFLOW REFERENCE", row)
    if report.update is not None:
        assert reason_of(report) == reason
    code = error_code(report.error)
    assert code in reason
    retried = error_codes()[code].retried
    if retried is not Retried.DOES_NOT_APPLY:
        ends = retried is Retried.NO or (
            retried is Retried.NOT_UNDER_SETTLED and harness.policy in {SETTLED, AUTO}
        )
        assert error_is_terminal(report.error) == ends
    return Told(harness, reason)


async def retried(harness: AttemptHarness, fault: Fault) -> AttemptHarness:
    """A harness whose first attempt died, with the next one waiting."""
    await harness.start()
    await harness.attempt(harness.worker([fault]))
    await harness.lose_lease()
    return harness


@mistake("PRG-F001")
async def the_workflow_is_terminated_while_the_body_runs(root: Path) -> Told:
    harness = await AttemptHarness(root, HEAD_PARENT, fenced=False).started()
    ended = meanwhile(
        lambda: harness.conductor.terminate(harness.workflow, "enough"), before="branches.create"
    )
    return await told(harness, [ended])


@mistake("PRG-F003")
async def the_head_has_no_owner_and_owners_are_required(root: Path) -> Told:
    harness = await AttemptHarness(
        root, HEAD_PARENT, fenced=False, require_ownership=True
    ).started()
    harness.human()
    return await told(harness)


@mistake("PRG-F004")
async def the_workflow_is_older_than_a_thousand_commits(root: Path) -> Told:
    harness = await AttemptHarness(root, LINEAGE, fenced=False).started()
    for _ in range(TOO_MANY_COMMITS):
        harness.repository.commit({})
    return await told(harness)


@mistake("PRG-F025")
async def an_operator_decides_with_a_commit_of_his_own(root: Path) -> Told:
    harness = await retried(AttemptHarness(root, SETTLED), crash(after=CREATE_TAG))
    (tag,) = harness.repository.tags()
    decided = harness.lakefs.repository(harness.repository.id).commit_of(tag).record
    harness.repository.branch("his")
    files = {"elsewhere/his.txt": b"his"}
    forged = harness.repository.commit(files, "his", metadata=decided.metadata)
    harness.repository.delete_tag(tag)
    harness.repository.tag(tag, forged)
    return await told(harness)


@mistake("PRG-F007")
async def others_commit_elsewhere_again_and_again(root: Path) -> Told:
    spec = WorkspaceSpec(prefix="data", isolation="prefix")
    harness = await AttemptHarness(root, SETTLED, spec=spec).started()
    paths = map("elsewhere/{}".format, count())
    return await told(
        harness, [always(meanwhile(lambda: harness.human(next(paths)), before="merge"))]
    )


async def told_for(harness: AttemptHarness, **changes: object) -> Told:
    """The reason of a retry whose input expressions resolve to something else."""
    worker = harness.worker()
    record = await worker.poll(TASK)
    assert record is not None
    given = {**record.input_data, **changes}
    report = await harness.drive(worker.run(replace(record, input_data=given)))
    assert report.error is not None
    return Told(harness, failure_reason(report.error))


@mistake("PRG-F008")
async def a_retry_resolves_to_another_input(root: Path) -> Told:
    spec = WorkspaceSpec(prefix="data", isolation="prefix")
    harness = await retried(AttemptHarness(root, SETTLED, spec=spec), crash(before="merge"))
    later = harness.human("elsewhere/later.txt")
    return await told_for(harness, workspace=harness.workspace(ref=later))


@mistake("PRG-F026")
async def a_retry_resolves_to_other_params(root: Path) -> Told:
    harness = await retried(AttemptHarness(root, SETTLED), crash(after="merge"))
    return await told_for(harness, params={"text": "other"})


@mistake("PRG-F009")
async def a_task_of_a_running_workflow_is_to_be_reset(root: Path) -> Told:
    harness = await AttemptHarness(root, SETTLED).started()
    with pytest.raises(PeragoError) as caught:
        await harness.reset_task()
    return Told(harness, failure_reason(caught.value))


@mistake("PRG-F010")
async def another_hook_refuses_the_merge(root: Path) -> Told:
    harness = AttemptHarness(root, HEAD_PARENT, fenced=False)
    harness.input = harness.repository.commit({f"{ACTIONS_PREFIX}other.yaml": REFUSING_HOOK})
    return await told(await harness.started())


@mistake("PRG-F011")
async def a_readme_stands_among_the_hook_files(root: Path) -> Told:
    harness = AttemptHarness(root, HEAD_PARENT, fenced=False)
    readme = {f"{ACTIONS_PREFIX}README.md": b"# our hooks"}
    harness.input = harness.repository.commit(readme, unchecked=True)
    return await told(await harness.started())


@mistake("PRG-F014")
async def the_target_of_a_replacement_is_protected(root: Path) -> Told:
    harness = AttemptHarness(root, HEAD_PARENT, fenced=False)
    harness.repository.protect()
    return await told(await retried(harness, crash(after=MERGE)))


@mistake("PRG-F015")
async def the_prefix_conflicts_with_a_head_that_moved(root: Path) -> Told:
    spec = WorkspaceSpec(prefix="data", isolation="prefix")
    harness = await AttemptHarness(root, SETTLED, spec=spec).started()
    moved = meanwhile(harness.human, before=CREATE_TAG)
    return await told(harness, [moved, answer("onto-head", MergeConflict("conflict"))])


@mistake("PRG-U002")
async def lakefs_is_away_whenever_the_row_is_polled(root: Path) -> Told:
    harness = await AttemptHarness(root, SETTLED, patience_seconds=0).started()
    away = [refuse("repositories.read", UnavailableError("connection refused"))]
    for _ in range(HAND_BACKS_MAX):
        await harness.attempt(harness.worker(away))
        harness.clock.advance(1000)
    return await told(harness, away)


@mistake("PRG-F027")
async def an_operator_merges_a_staging_branch_by_hand(root: Path) -> Told:
    harness = AttemptHarness(root, SETTLED)
    staging = harness.repository.branch(f"{STAGING_BRANCH_PREFIX}1")
    harness.repository.commit({"data/half.txt": b"half"}, staging)
    with pytest.raises(RequestRefusedError) as refused:
        merge(harness.repository, staging)
    return Told(harness, str(refused.value))


@mistake("PRG-L002")
async def the_input_names_a_branch_that_is_not_there(root: Path) -> Told:
    harness = AttemptHarness(root, SETTLED)
    await harness.start(harness.workspace(branch="mian"))
    return await told(harness)


@mistake("PRG-L003")
async def the_server_refuses_the_merge_with_unknown_words(root: Path) -> Told:
    harness = await AttemptHarness(root, HEAD_PARENT, fenced=False).started()
    return await told(harness, [answer(MERGE, MergeRefused("not today"))])


@mistake("PRG-L004")
async def the_staging_branch_of_another_execution_has_the_name(root: Path) -> Told:
    harness = await AttemptHarness(root, HEAD_PARENT, fenced=False).started()
    return await told(harness, [refuse("branches.create", BranchExistsError("it exists"))])


@mistake("PRG-L007")
async def the_user_may_not_write(root: Path) -> Told:
    harness = await AttemptHarness(root, HEAD_PARENT, fenced=False).started()
    return await told(harness, [refuse("branches.create", AccessDeniedError("not allowed"))])


@mistake("PRG-L008")
async def the_server_does_not_answer_a_read(root: Path) -> Told:
    harness = await AttemptHarness(root, HEAD_PARENT, fenced=False).started()
    refused = UnavailableError("nothing was sent")
    return await told(harness, [always(refuse("branches.create", refused))])


@mistake("PRG-L009")
async def the_answer_to_a_staging_commit_is_lost(root: Path) -> Told:
    harness = AttemptHarness(root, HEAD_PARENT, fenced=False, patience_seconds=0)
    return await told(await harness.started(), [lose_answer("commits.commit")])


@mistake("PRG-L010")
async def an_object_arrives_damaged(root: Path) -> Told:
    harness = await AttemptHarness(root, HEAD_PARENT, fenced=False).started()
    return await told(harness, [refuse("objects.download", DamagedObjectError("data/kept.txt"))])


@mistake("PRG-L011")
async def the_repository_is_read_only(root: Path) -> Told:
    harness = AttemptHarness(root, HEAD_PARENT, fenced=False)
    harness.repository.make_read_only()
    return await told(await harness.started())


@pytest.mark.parametrize("code", MISTAKES)
async def test_what_an_operator_did_is_reported_with_its_code(code: str, tmp_path: Path) -> None:
    if code == "PRG-F010":
        assert has_lua(), "the other hook is a script"
    assert code in (await MISTAKES[code](tmp_path)).reason
