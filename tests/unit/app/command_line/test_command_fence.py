"""`perago fence` without servers: one repository, many of them, an old fence, protection."""

from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Run

from perago.adapters.memory.installations import RepositoryBuilder, shared_memory
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.domain.fence import FENCE_FILE, FENCE_FILE_1
from perago.domain.paths import FENCE_PATH


@pytest.fixture
def lakefs(project: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryLakeFS:
    """A lakeFS that the commands reach."""
    monkeypatch.setenv("PERAGO_LAKEFS", f"memory:{project}")
    return shared_memory(f"memory:{project}")


def repository(
    lakefs: MemoryLakeFS, name: str, fence: bytes | None = None, *, protected: bool = True
) -> RepositoryBuilder:
    made = RepositoryBuilder(lakefs, name)
    made.commit({"a": b"1"} if fence is None else {"a": b"1", FENCE_PATH: fence})
    if protected:
        made.protect()
    return made


def test_an_old_fence_is_reported_and_replaced(run: Run, lakefs: MemoryLakeFS) -> None:
    songs = repository(lakefs, "songs", FENCE_FILE_1)
    old = run("fence", "verify", "songs", "main", "--json")
    assert (old.code, old.document["state"], old.document["version"]) == (0, "trusted", 1)
    (warning,) = old.document["warnings"]
    assert "perago fence install songs main" in warning

    installed = run("fence", "install", "songs", "main", "--json")
    assert (installed.code, installed.document["change"]) == (0, "replaced")
    assert songs.files()[FENCE_PATH] == FENCE_FILE
    new = run("fence", "verify", "songs", "main", "--json")
    assert (new.code, new.document["version"], new.document["warnings"]) == (0, 2, [])


def test_an_open_branch_is_named_and_protected_on_request(run: Run, lakefs: MemoryLakeFS) -> None:
    repository(lakefs, "songs", protected=False)
    open_one = run("fence", "install", "songs", "main")
    assert open_one.code == 0
    assert "warning: main is not protected" in open_one.err
    closed = run("fence", "install", "songs", "main", "--protect", "--json")
    assert (closed.document["change"], closed.document["protected"]) == ("unchanged", True)
    assert closed.document["protection_added"]
    assert closed.err == ""


def test_added_protection_is_said_where_the_file_is_unchanged(
    run: Run, lakefs: MemoryLakeFS
) -> None:
    head = repository(lakefs, "songs", FENCE_FILE, protected=False).head().commit
    told = f"songs main at {head}\n"
    command = ("fence", "install", "songs", "main", "--protect")
    assert run(*command).out == f"unchanged, protection added: {told}"
    assert run(*command).out == f"unchanged: {told}"
    assert not run(*command, "--json").document["protection_added"]


def test_added_protection_is_counted_in_many_repositories(run: Run, lakefs: MemoryLakeFS) -> None:
    heads = [
        repository(lakefs, f"song-{number}", FENCE_FILE, protected=number == 1).head().commit
        for number in range(3)
    ]
    ran = run("fence", "install", "--match", "song-*", "main", "--protect")
    assert sorted(ran.out.splitlines()) == [
        f"unchanged, protection added: song-0 main at {heads[0]}",
        f"unchanged, protection added: song-2 main at {heads[2]}",
        f"unchanged: song-1 main at {heads[1]}",
    ]
    assert "3 unchanged, protection added to 2, 0 failed" in ran.err.splitlines()


def test_verifying_leaves_neither_rule_nor_branch(run: Run, lakefs: MemoryLakeFS) -> None:
    songs = repository(lakefs, "songs", FENCE_FILE)
    verdict = run("fence", "verify", "songs", "main", "--json").document
    assert (verdict["protected"], verdict["protected_merge"]) == (True, "passes")
    assert songs.branch_names() == {"main"}
    assert lakefs.repository(songs.id).protected_patterns == {"main"}


def test_a_missing_fence_ends_with_a_code_of_its_own(run: Run, lakefs: MemoryLakeFS) -> None:
    repository(lakefs, "songs")
    missing = run("fence", "verify", "songs", "main", "--json")
    assert (missing.code, missing.document["state"], missing.document["version"]) == (
        4,
        "absent",
        0,
    )
    assert missing.document["protected_merge"] == "not tried"


def test_many_repositories_are_fenced_at_once(run: Run, lakefs: MemoryLakeFS) -> None:
    songs = [repository(lakefs, f"song-{number}") for number in range(20)]
    repository(lakefs, "song-old", FENCE_FILE_1)
    other = repository(lakefs, "album-1")
    ran = run("fence", "install", "--match", "song-*", "main")
    assert ran.code == 0, ran.err
    assert len(ran.out.splitlines()) == 21
    assert f"installed: song-3 main at {songs[3].head().commit}" in ran.out.splitlines()
    assert "20 installed, 1 replaced, 0 failed" in ran.err.splitlines()
    assert all(song.files()[FENCE_PATH] == FENCE_FILE for song in songs)
    assert FENCE_PATH not in other.files()
    again = run("fence", "install", "--match", "song-*", "main", "--json")
    rows = again.document["repositories"]
    assert {row["change"] for row in rows} == {"unchanged"}
    assert [row["repository"] for row in rows] == sorted(row["repository"] for row in rows)


def test_one_repository_that_fails_keeps_no_other_from_its_fence(
    run: Run, lakefs: MemoryLakeFS
) -> None:
    first, last = repository(lakefs, "song-1"), repository(lakefs, "song-3", protected=False)
    repository(lakefs, "song-2").make_read_only()
    ran = run("fence", "install", "--match", "song-*", "main", "--json")
    assert ran.code == 1, ran.out + ran.err
    rows = {row["repository"]: row for row in ran.document["repositories"]}
    assert "read-only" in rows["song-2"]["error"]["message"]
    assert rows["song-2"]["error"]["code"].startswith("PRG-")
    assert "warning: song-2:" in ran.err
    assert "warning: main is not protected in 1 of them" in ran.err
    for song in (first, last):
        assert rows[song.id]["commit"] == song.head().commit
        assert song.files()[FENCE_PATH] == FENCE_FILE


@pytest.mark.parametrize(
    "words",
    [("main",), ("songs", "main", "more"), ("--match", "song*", "songs", "main"),
     ("--match", "nothing-*", "main")],
)  # fmt: skip
def test_names_that_do_not_fit_are_a_mistake_of_use(
    run: Run, lakefs: MemoryLakeFS, words: tuple[str, ...]
) -> None:
    songs = repository(lakefs, "songs")
    ran = run("fence", "install", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "PRG-X003: `perago fence install --help` shows all arguments" in ran.err
    assert FENCE_PATH not in songs.files()
