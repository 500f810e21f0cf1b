"""`perago gc` without servers: what cannot be reached, and this disk."""

import json
from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Run

from perago.adapters.memory.installations import RepositoryBuilder, shared_memory
from perago.adapters.system import SystemIdentities
from perago.app.command_line import gc as command
from perago.domain.names import canary_branches, execution_id_at

OLD = canary_branches(execution_id_at(1_000_000_000_000, 1))[0]
NEW = canary_branches(SystemIdentities().new_execution_id())[0]
LEFT = {
    "execution_id": "e9",
    "owner_pid": 2**22 + 1,
    "owner_worker_id": "old",
    "started_at": "2025-12-31T23:00:00",
    "task_def_name": "clean",
    "task_id": "t9",
    "workflow_instance_id": "w9",
}


@pytest.fixture
def left(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of a dead worker, in a harness in memory of this test."""
    monkeypatch.setenv("PERAGO_LAKEFS", f"memory:{project}")
    monkeypatch.setenv("PERAGO_CONDUCTOR", f"memory:{project}")
    directory = project.parent / "workspaces" / "task_id=t9-exec=e9"
    directory.mkdir(parents=True)
    (directory / ".perago-attempt.json").write_text(json.dumps(LEFT))
    return directory


def test_a_missing_repository_does_not_stop_the_others(run: Run, left: Path) -> None:
    ran = run("gc", "nowhere", "elsewhere", "--dry-run")
    assert ran.code == 6
    assert ran.err.splitlines()[:2] == [
        "warning: there is no repository elsewhere",
        "error: there is no repository nowhere",
    ]
    assert ran.out == f"would remove: attempt directory {left}\n"
    assert left.exists()


def test_one_document_lists_what_was_not_reached(run: Run, left: Path) -> None:
    ran = run("gc", "nowhere", "--json")
    assert ran.code == 6
    assert ran.document["unreached"] == ["there is no repository nowhere"]
    assert ran.document["directories"] == {"removed": [str(left)], "failed": []}
    assert not left.exists()


def test_without_a_name_gc_cleans_every_repository(run: Run, project: Path, left: Path) -> None:
    lakefs = shared_memory(f"memory:{project}")
    builders = [RepositoryBuilder(lakefs, name) for name in ("first", "second")]
    for builder in builders:
        builder.branch(OLD)
        builder.branch(NEW)
    shown = run("gc", "--dry-run", "--older-than", "0s")
    assert shown.code == 0
    assert [line.partition(" (")[0] for line in shown.out.splitlines()] == [
        f"would remove: canary branch first/{OLD}",
        f"kept: canary branch first/{NEW}",
        f"would remove: canary branch second/{OLD}",
        f"kept: canary branch second/{NEW}",
        f"would remove: attempt directory {left}",
    ]
    assert run("gc", "--older-than", "0s").code == 0
    assert [builder.branch_names() for builder in builders] == [{"main", NEW}] * 2, (
        "a check that may be under way is not disturbed, however short the age is"
    )
    assert not left.exists()
    for builder in builders:
        builder.delete_branch(NEW)
    last = run("gc")
    assert (last.code, last.out) == (0, "")
    assert last.err == "nothing to remove in 2 repositories or on this disk\n"


def test_a_long_pass_says_how_far_it_is(
    run: Run, project: Path, left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert left.exists()
    lakefs = shared_memory(f"memory:{project}")
    for name in ("first", "second"):
        RepositoryBuilder(lakefs, name)
    assert "repository" not in run("gc", "--dry-run").err
    monkeypatch.setattr(command, "PROGRESS_SECONDS", 0.0)
    shown = run("gc", "--dry-run")
    assert shown.err.splitlines() == ["repository 1 of 2: first", "repository 2 of 2: second"]
