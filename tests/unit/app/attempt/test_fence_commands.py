"""Installing and removing the fence: what became of the branch is the answer, whatever is left."""

from pathlib import Path

import pytest
from tests.attempt_workers import AttemptWorker
from tests.unit.app.attempt.attempt_harness import AttemptHarness

from perago.app.fence.install import FenceChange, FenceReport, install_fence, remove_fence
from perago.app.fence.trust import FenceVerdict, ProtectedMerge, verify_fence
from perago.domain.commit_metadata import FENCE_OWNER, LOGICAL_TASK_KEY
from perago.domain.fence import FENCE_FILE
from perago.domain.lakefs import BranchName, CommitId, CommitRecord
from perago.domain.outcome import MergeRefused, NoAnswer, Relocated
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.ports.errors import AccessDeniedError, RequestRefusedError
from perago.testing.fault_injector import ProcessDied
from perago.testing.faults import (
    ANY_CALL,
    Fault,
    always,
    answer,
    crash,
    lose_answer,
    lose_request,
    meanwhile,
    refuse,
)

MAIN = BranchName("main")
DELETE = "branches.delete"
MERGE = "branches.merge"
CALLS = 8  # of an installation in which nothing goes wrong


def _is_of_fence(commit: CommitRecord) -> bool:
    return commit.metadata.get(LOGICAL_TASK_KEY) == FENCE_OWNER


async def _verify(harness: AttemptHarness, worker: AttemptWorker) -> FenceVerdict:
    return await verify_fence(worker.fence, harness.clock, harness.repository.id, MAIN)


@pytest.mark.parametrize(
    "trouble", [lose_answer(DELETE), refuse(DELETE, RequestRefusedError("busy"))], ids=str
)
async def test_a_side_branch_that_stays_does_not_hide_that_the_fence_is_there(
    tmp_path: Path, trouble: Fault
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO, fenced=False)
    worker = harness.worker([trouble])

    installed = await install_fence(worker.fence, harness.repository.id, MAIN)

    assert installed.change is FenceChange.INSTALLED
    assert FENCE_PATH in harness.repository.files()
    left = harness.repository.branch_names() - {"main"}
    assert all(name.startswith("perago-canary-") for name in left), "garbage collection finds it"


async def test_removing_says_so_though_its_side_branch_stays(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    worker = harness.worker([lose_answer(DELETE)])
    removed = await remove_fence(worker.fence, harness.repository.id, MAIN)
    assert removed.change is FenceChange.REMOVED
    assert FENCE_PATH not in harness.repository.files()


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, CALLS + 1))
async def test_a_second_command_finishes_what_a_first_one_began(
    tmp_path: Path, nth: int, side: str
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO, fenced=False)
    files = harness.repository.files()
    dies = crash(before=ANY_CALL, nth=nth) if side == "before" else crash(after=ANY_CALL, nth=nth)
    with pytest.raises(ProcessDied):
        await install_fence(harness.worker([dies]).fence, harness.repository.id, MAIN)

    await install_fence(harness.worker().fence, harness.repository.id, MAIN)

    assert harness.repository.files() == {**files, FENCE_PATH: FENCE_FILE}
    installed = [commit for commit in harness.repository.history() if _is_of_fence(commit)]
    assert len(installed) == 1, "the second command does not merge what is there"
    left = harness.repository.branch_names() - {"main"}
    assert all(name.startswith("perago-canary-fence-") for name in left)


async def test_every_call_of_the_command_is_tried(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO, fenced=False)
    await install_fence(harness.worker().fence, harness.repository.id, MAIN)
    assert sum(harness.workers[0].calls.values()) == CALLS


@pytest.mark.parametrize("lost", [lose_answer(MERGE), lose_request(MERGE)], ids=str)
@pytest.mark.parametrize("fenced", [False, True], ids=["install", "remove"])
async def test_a_lost_answer_is_looked_for(tmp_path: Path, lost: Fault, *, fenced: bool) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO, fenced=fenced)
    command = remove_fence if fenced else install_fence
    report = await command(harness.worker([lost]).fence, harness.repository.id, MAIN)
    assert report.change is (FenceChange.REMOVED if fenced else FenceChange.INSTALLED)
    assert report.commit == harness.repository.head().commit
    assert len([each for each in harness.repository.history() if _is_of_fence(each)]) == 1


async def test_a_fence_is_never_merged_onto_a_head_that_was_not_looked_at(tmp_path: Path) -> None:
    """LakeFS's merge onto another head may lose objects, and reports no conflict."""
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO, fenced=False)
    moved: list[CommitId] = []
    move = meanwhile(lambda: moved.append(harness.repository.commit({"b": b"b"})), before=MERGE)
    report = await install_fence(harness.worker([move]).fence, harness.repository.id, MAIN)
    assert report.change is FenceChange.INSTALLED
    assert harness.repository.head().parents == tuple(moved)
    assert harness.workers[0].calls[MERGE] == 2, "the first one is refused"


async def test_the_side_branch_of_a_fence_is_hidden(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO, fenced=False)
    with pytest.raises(ProcessDied):
        await install_fence(
            harness.worker([crash(before=MERGE)]).fence, harness.repository.id, MAIN
        )
    branches = harness.worker().fence.lakefs.branches
    plain = await branches.list_page(harness.repository.id, "perago-")
    shown = await branches.list_page(harness.repository.id, "perago-", show_hidden=True)
    assert (len(plain.items), len(shown.items)) == (0, 1)


async def test_a_branch_is_protected_before_its_fence_is_there(tmp_path: Path) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO, fenced=False)
    denied = refuse("branches.protect", AccessDeniedError("not allowed"))
    with pytest.raises(AccessDeniedError):
        await install_fence(
            harness.worker([denied]).fence, harness.repository.id, MAIN, protect=True
        )
    assert FENCE_PATH not in harness.repository.files()
    report = await install_fence(harness.worker().fence, harness.repository.id, MAIN, protect=True)
    assert report.protected
    assert FENCE_PATH in harness.repository.files()


@pytest.mark.parametrize(
    ("fault", "protected_merge"),
    [
        (answer(MERGE, MergeRefused("403: protected"), nth=3), ProtectedMerge.REFUSED),
        (answer(MERGE, NoAnswer("cut off"), nth=3), ProtectedMerge.NOT_TRIED),
        (refuse("branches.protect", AccessDeniedError("no")), ProtectedMerge.NOT_TRIED),
        (always(answer("branches.relocate", Relocated())), ProtectedMerge.NOT_TRIED),
    ],
    ids=["lakeFS refuses it", "no answer", "no right to the rules", "never enforced"],
)
async def test_a_merge_into_a_protected_branch_is_tried(
    tmp_path: Path, fault: Fault, protected_merge: ProtectedMerge
) -> None:
    harness = AttemptHarness(tmp_path, PolicySetting.AUTO)
    harness.repository.protect()
    worker = harness.worker([fault])
    verdict = await harness.drive(_verify(harness, worker))
    assert verdict.protected_merge is protected_merge
    assert verdict.works is (protected_merge is not ProtectedMerge.REFUSED)
    assert any("allow merges" in each for each in verdict.warnings) is not verdict.works
    assert harness.repository.branch_names() == {"main"}
    assert harness.lakefs.repository(harness.repository.id).protected_patterns == {"main"}


@pytest.mark.parametrize("fenced", [False, True], ids=["install", "remove"])
@pytest.mark.parametrize("changes", [True, False], ids=["changed", "unchanged"])
@pytest.mark.parametrize("policy", [PolicySetting.AUTO, PolicySetting.HEAD_PARENT], ids=str)
async def test_an_attempt_that_runs_meanwhile_does_not_drop_the_commit_of_the_fence(
    tmp_path: Path,
    policy: PolicySetting,
    changes: bool,  # noqa: FBT001 - a row of the table
    fenced: bool,  # noqa: FBT001 - a row of the table
) -> None:
    """Its one parent is the input, so `head-parent` would take it for an abandoned publication."""
    harness = await AttemptHarness(tmp_path, policy, fenced=fenced, changes=changes).started()
    command = remove_fence if fenced else install_fence
    done: list[FenceReport] = []

    async def act() -> None:
        done.append(await command(harness.worker().fence, harness.repository.id, MAIN))

    report = await harness.report(meanwhile(act, before="objects.list_page"))

    assert report.error is not None
    assert harness.repository.head().commit == done[0].commit
    assert (FENCE_PATH in harness.repository.files()) is not fenced
    assert harness.repository.head().metadata[LOGICAL_TASK_KEY] == "perago/fence/0"
