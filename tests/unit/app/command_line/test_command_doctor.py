"""`perago doctor` as a person calls it, without servers."""

from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Module, Run

from perago.adapters.memory.installations import RepositoryBuilder, shared_memory
from perago.app.command_line.doctor import exit_code_of
from perago.app.inspection.doctor import Finding, Status
from perago.domain.fence import FENCE_FILE
from perago.domain.paths import FENCE_PATH

SECRET = "0123456789-hush"


@pytest.fixture
def songs(project: Path, monkeypatch: pytest.MonkeyPatch) -> RepositoryBuilder:
    """A repository with the fence, in a lakeFS that the command reaches."""
    address = f"memory:{project}"
    for name in ("PERAGO_LAKEFS", "PERAGO_CONDUCTOR"):
        monkeypatch.setenv(name, address)
    monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "key-of-a-worker")
    monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", SECRET)
    made = RepositoryBuilder(shared_memory(address), "songs")
    made.commit({"a": b"1", FENCE_PATH: FENCE_FILE})
    return made


def test_lines_for_people_and_a_document_for_programs(run: Run, songs: RepositoryBuilder) -> None:
    songs.write("draft", b"1")
    told = run("doctor", "--repo", "songs")
    assert told.code == 4
    assert "failure  target branch: songs main has uncommitted objects: draft" in told.out
    assert "         PRG-F013: `" in told.out
    assert "1 failure" in told.err

    document = run("doctor", "--repo", "songs", "--branch", "main", "--json").document
    assert document["schema"] == "perago.doctor/1"
    assert document["failure_count"] == 1
    (dirty,) = (each for each in document["findings"] if each["code"] == "PRG-F013")
    assert dirty["commands"][-1] == "lakectl branch reset lakefs://songs/main"


def test_no_key_is_printed(run: Run, songs: RepositoryBuilder) -> None:
    del songs
    told = run("doctor", "--repo", "songs")
    assert told.code == 0, told.out
    assert SECRET not in told.out + told.err
    assert "key-of-a-worker" not in told.out + told.err


def test_a_module_that_cannot_be_imported_is_a_finding(
    run: Run, songs: RepositoryBuilder, module: Module
) -> None:
    del songs
    told = run("doctor", "nowhere")
    assert told.code == 1
    assert "failure  task modules: nowhere cannot be imported" in told.out
    fine = run("doctor", module("words"))
    assert "ok       task modules: words" in fine.out


def test_wrong_settings_end_as_those_of_every_command(
    run: Run, songs: RepositoryBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    del songs
    monkeypatch.setenv("PERAGO_TRANSFER_ROUTE", "by hand")
    told = run("doctor")
    assert told.code == 3
    assert "PRG-C002" in told.err


@pytest.mark.parametrize(
    ("code", "expected"),
    [("PRG-C011", 3), ("PRG-F020", 4), ("PRG-U001", 5), ("PRG-L008", 6), ("PRG-W004", 1)],
)
def test_the_first_failure_decides_how_the_command_ends(code: str, expected: int) -> None:
    warned = Finding(Status.WARNING, "", code="PRG-L013")
    later = Finding(Status.FAILURE, "", code="PRG-T019")
    assert exit_code_of([warned, Finding(Status.FAILURE, "", code=code), later]) == expected
    assert exit_code_of([warned]) == 0
