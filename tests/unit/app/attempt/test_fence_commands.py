"""Installing and removing the fence: what became of the branch is the answer, whatever is left."""

from pathlib import Path

import pytest
from tests.unit.app.attempt.fault_world import FaultWorld

from perago.adapters.memory.planned_faults import Fault, LoseAnswer, Refuse
from perago.app.fence.install import FenceChange, install_fence, remove_fence
from perago.domain.publication_policy import PolicySetting
from perago.domain.references import BranchName
from perago.domain.reserved_paths import FENCE_PATH
from perago.ports.errors import RequestRefusedError

MAIN = BranchName("main")
DELETE = "branches.delete"


@pytest.mark.parametrize(
    "trouble", [LoseAnswer(DELETE), Refuse(DELETE, RequestRefusedError("busy"))], ids=str
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
    worker = world.worker([LoseAnswer(DELETE)])
    removed = await remove_fence(worker.fence, world.repository.id, MAIN)
    assert removed.change is FenceChange.REMOVED
    assert FENCE_PATH not in world.repository.files()
