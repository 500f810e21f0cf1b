"""`perago diff` without servers: what a staged commit would change."""

from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Run

from perago.adapters.memory.installations import RepositoryBuilder, shared_memory
from perago.domain.attempt import AttemptSnapshot, AttemptStatus
from perago.domain.commit_metadata import INPUT_REF
from perago.domain.names import execution_id_at, staging_branch_name

EXECUTION = execution_id_at(1_800_000_000_000, 1)
ROW = AttemptSnapshot("w1", "t1", "clean", "clean", AttemptStatus.IN_PROGRESS)
BRANCH = staging_branch_name(ROW, EXECUTION)
BEFORE = {"raw/old.csv": b"old", "raw/kept.csv": b"kept", "raw/gone.csv": b"gone"}
AFTER = {"raw/old.csv": b"x" * 2048, "raw/gone.csv": None, "out/new.csv": b"1234"}


@pytest.fixture
def staged(project: Path, monkeypatch: pytest.MonkeyPatch) -> RepositoryBuilder:
    """Two repositories; the second one has a staged commit, and its target has moved since."""
    monkeypatch.setenv("PERAGO_LAKEFS", f"memory:{project}")
    lakefs = shared_memory(f"memory:{project}")
    RepositoryBuilder(lakefs, "albums").commit(BEFORE)
    songs = RepositoryBuilder(lakefs, "songs")
    base = songs.commit(BEFORE)
    songs.branch(BRANCH)
    songs.commit(AFTER, BRANCH, metadata={INPUT_REF: base})
    songs.commit({"raw/foreign.csv": b"of somebody else"})
    return songs


@pytest.mark.parametrize("name", [EXECUTION, BRANCH])
def test_the_changes_of_an_execution_are_listed_with_their_sizes(
    run: Run, staged: RepositoryBuilder, name: str
) -> None:
    ran = run("diff", name)
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "+ out/new.csv  4 B",
        "- raw/gone.csv",
        "~ raw/old.csv  2.0 KiB",
    ]
    base, head = staged.history(BRANCH)[1].commit, staged.head(BRANCH).commit
    assert ran.err.splitlines() == [
        f"songs: {base} to {head} ({BRANCH})",
        "1 added, 1 changed, 1 removed; 2.0 KiB are new or changed",
    ]


def test_folders_are_counted(run: Run, staged: RepositoryBuilder) -> None:
    ran = run("diff", BRANCH, "--repo", staged.id, "--stat")
    assert ran.out.splitlines() == ["+1 4 B  out/", "~1 -1 2.0 KiB  raw/"]


def test_one_document_has_the_commits_and_every_object(run: Run, staged: RepositoryBuilder) -> None:
    document = run("diff", BRANCH, "--json").document
    assert document["schema"] == "perago.diff/1"
    assert document["repository"] == "songs"
    assert document["head"] == staged.head(BRANCH).commit
    assert document["total"] == {"added": 1, "changed": 1, "removed": 1, "bytes": 2052}
    assert document["changes"] == [
        {"path": "out/new.csv", "kind": "added", "bytes": 4},
        {"path": "raw/gone.csv", "kind": "removed", "bytes": None},
        {"path": "raw/old.csv", "kind": "changed", "bytes": 2048},
    ]
    folders = run("diff", BRANCH, "--stat", "--json").document["folders"]
    assert folders["out/"] == {"added": 1, "changed": 0, "removed": 0, "bytes": 4}


@pytest.mark.usefixtures("staged")
@pytest.mark.parametrize("name", ["main", "0" * 32, "perago-staging-gone"])
def test_what_is_no_private_branch_is_named(run: Run, name: str) -> None:
    ran = run("diff", name)
    assert (ran.code, ran.out) == (2, "")
    assert f"found {name!r}, which is not or no longer in 2 repositories" in ran.err


def test_a_branch_on_which_nothing_is_committed_changes_nothing(
    run: Run, staged: RepositoryBuilder
) -> None:
    empty = staged.branch("perago-staging-empty")
    ran = run("diff", empty)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines()[-1] == "0 added, 0 changed, 0 removed; 0 B are new or changed"


def test_ten_thousand_objects_are_all_listed(run: Run, staged: RepositoryBuilder) -> None:
    many = {f"song/{number:05}": b"x" for number in range(10_000)}
    base = staged.head().commit
    branch = staged.branch("perago-staging-many")
    staged.commit(many, branch, metadata={INPUT_REF: base})
    lines = run("diff", branch).out.splitlines()
    assert [line.split()[1] for line in lines] == sorted(many)
