"""Selected by entry point, found again by the next process, and under every fault of a task."""

import sys
from pathlib import Path

import pytest
from examples.custom_adapter.directory_lakefs import DirectoryStore, installation_in
from examples.quickstart.clean_events import clean

from perago.adapters.memory.installations import RepositoryBuilder
from perago.adapters.memory.system import WorkerHandle
from perago.app.connections import LakeFSConnection
from perago.app.container import open_lakefs
from perago.domain.lakefs import BranchName, RepositoryId
from perago.testing import MemoryServers, PeragoEnvironment, crash

MAIN = BranchName("main")
ENTRY_POINT = """[perago.adapters]
lakefs.dir = examples.custom_adapter.directory_lakefs:open_lakefs
"""


async def test_an_address_selects_the_adapter_and_the_state_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site/perago_directory_lakefs-1.0.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Name: perago-directory-lakefs\nVersion: 1.0.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINT)
    monkeypatch.setattr(sys, "path", [*sys.path, str(installed.parent)])

    first = DirectoryStore(tmp_path / "data")
    commit = RepositoryBuilder(first.lakefs, "repo").commit({"a.txt": b"a"})
    first.save()
    connection = LakeFSConnection(url=f"dir://{tmp_path}/data")
    opened = open_lakefs(connection)
    head = await opened.branches.head(RepositoryId("repo"), MAIN)
    assert head.commit == commit
    await opened.branches.create(RepositoryId("repo"), BranchName("side"), commit)
    again = open_lakefs(connection)
    assert (await again.branches.head(RepositoryId("repo"), BranchName("side"))).commit == commit


async def test_a_crashed_task_is_finished_on_the_directory(tmp_path: Path) -> None:
    ground, store = MemoryServers(), DirectoryStore(tmp_path)
    ground.lakefs, ground.memory_lakefs = installation_in(store, WorkerHandle()), store.lakefs
    with PeragoEnvironment(servers=ground) as env:
        repository = await env.repository("repo", {"sales/raw/events.csv": "day,amount\n1,2\n"})
        env.plan(crash(after="merge"))
        await env.assert_completed(await env.run(clean, repository))
        await env.assert_sound()
    kept = DirectoryStore(tmp_path).lakefs.repository(repository.id)
    assert "sales/clean/events.csv" in dict(kept.tree_of("main").under(""))
