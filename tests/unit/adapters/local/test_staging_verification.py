"""What is staged is looked at, however widely the changes are spread."""

import hashlib

import pytest

from perago.adapters.local.staging_verification import StagingVerification
from perago.adapters.memory.branches import MemoryBranches
from perago.adapters.memory.commits import MemoryCommits
from perago.adapters.memory.concurrency import SequentialConcurrency
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.objects import MemoryObjects
from perago.adapters.memory.repository_builder import RepositoryBuilder
from perago.adapters.memory.worker_handle import WorkerHandle
from perago.domain.references import BranchName, StagedReference
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.ports.errors import DamagedObjectError
from perago.ports.workspace_pipeline import StagingArea

STAGING = BranchName("staging")
BASE = [f"{number:06}" for number in range(40_000)]
CHANGED = BASE[:: len(BASE) // 40]  # a window of the listing for each of them


async def check(staged: dict[str, bytes]) -> None:
    """Stage some bytes over the changed paths and verify the plan that says `new` for all."""
    lakefs, handle = MemoryLakeFS(), WorkerHandle()
    builder = RepositoryBuilder(lakefs, "repo")
    commit = builder.commit({f"ws/{path}": b"old" for path in CHANGED})
    await MemoryBranches(lakefs, handle).create(builder.id, STAGING, commit)
    for path, content in staged.items():
        builder.write(f"ws/{path}", content, branch=STAGING)
    md5 = hashlib.md5(b"new", usedforsecurity=False).hexdigest()
    plan = SyncPlan(upload=tuple(FileFacts(path, md5, 3) for path in CHANGED))
    area = StagingArea(StagedReference(builder.id, STAGING, commit), "ws")
    verification = StagingVerification(
        MemoryObjects(lakefs, handle), MemoryCommits(lakefs, handle), SequentialConcurrency()
    )
    await verification.check(BASE, plan, area)


async def test_changes_in_forty_places_are_as_planned() -> None:
    await check(dict.fromkeys(CHANGED, b"new"))


@pytest.mark.parametrize("path", [CHANGED[0], CHANGED[20], CHANGED[-1]])
async def test_other_bytes_in_any_of_forty_places_are_found(path: str) -> None:
    with pytest.raises(DamagedObjectError, match=f"not what was planned at 'ws/{path}'"):
        await check({**dict.fromkeys(CHANGED, b"new"), path: b"bad"})
