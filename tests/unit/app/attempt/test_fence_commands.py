"""Installing and removing the fence: what became of the branch is the answer, whatever is left."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import FaultWorld

from perago.app.fence.install import FenceChange, FenceReport, install_fence, remove_fence
from perago.domain.commit_metadata import LOGICAL_TASK_KEY
from perago.domain.logical_execution import BranchName
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.ports.errors import RequestRefusedError
from perago.testing.faults import Fault, lose_answer, meanwhile, refuse

MAIN = BranchName("main")
DELETE = "branches.delete"


@pytest.mark.parametrize(
    "trouble", [lose_answer(DELETE), refuse(DELETE, RequestRefusedError("busy"))], ids=str
)
async def test_a_side_branch_that_stays_does_not_hide_that_the_fence_is_there(
    tmp_path: Path, trouble: Fault
) -> None:
    world = FaultWorld(tmp_path, PolicySetting.AUTO, fenced=False)
    worker = world.worker([trouble])

    installed = await install_fence(worker.fence, world.repository.id, MAIN)

    assert installed.change is FenceChange.INSTALLED
    assert FENCE_PATH in world.repository.files()
    left = world.repository.branch_names() - {"main"}
    assert all(name.startswith("perago-canary-") for name in left), "garbage collection finds it"


async def test_removing_says_so_though_its_side_branch_stays(tmp_path: Path) -> None:
    world = FaultWorld(tmp_path, PolicySetting.AUTO)
    worker = world.worker([lose_answer(DELETE)])
    removed = await remove_fence(worker.fence, world.repository.id, MAIN)
    assert removed.change is FenceChange.REMOVED
    assert FENCE_PATH not in world.repository.files()


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
    world = await FaultWorld(tmp_path, policy, fenced=fenced, changes=changes).started()
    command = remove_fence if fenced else install_fence
    done: list[FenceReport] = []

    async def act() -> None:
        done.append(await command(world.worker().fence, world.repository.id, MAIN))

    report = await world.report(meanwhile(act, before="objects.list_page"))

    assert report.error is not None
    assert world.repository.head().commit == done[0].commit
    assert (FENCE_PATH in world.repository.files()) is not fenced
    assert world.repository.head().metadata[LOGICAL_TASK_KEY] == "perago/fence/0"
