"""What the Spark pipeline keeps beside its workspaces, and how errors come back from executors."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from perago.adapters.spark.pipeline_session import (
    PipelineSession,
    PipelineState,
    no_answer,
)
from perago.adapters.spark.rows import Line, ManifestRows, ending_with_problem, packed, unpacked
from perago.domain.errors import PeragoError, ReservedPathError
from perago.ports.errors import (
    DamagedObjectError,
    OutcomeUnknownError,
    ServiceError,
    UnavailableError,
    WorkspaceLostError,
)


def rows_of(place: Path, count: int) -> ManifestRows[str]:
    def path_of(line: Line) -> str:
        return str(line["path"])

    return ManifestRows(place, count, path_of, "upload")


def test_rows_are_counted_without_reading_and_read_in_order(tmp_path: Path) -> None:
    lines = [{"kind": "upload", "path": "a"}, {"kind": "delete", "path": "b"}]
    (tmp_path / "part-00000-x.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (tmp_path / "part-00001-x.json").write_text(json.dumps({"kind": "upload", "path": "c\n"}))
    (tmp_path / "_SUCCESS").write_text("")
    rows = rows_of(tmp_path, 2)
    assert (len(rows), list(rows), list(rows)) == (2, ["a", "c\n"], ["a", "c\n"])
    assert "c\n" in rows
    assert "b" not in rows


def test_rows_of_a_forgotten_workspace_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceLostError):
        list(rows_of(tmp_path / "gone", 1))
    assert list(rows_of(tmp_path / "gone", 0)) == []


@pytest.mark.parametrize(
    "error", [DamagedObjectError("two bytes"), ReservedPathError("_lakefs_actions/x")], ids=str
)
def test_an_error_of_a_part_is_the_same_error_on_the_driver(error: Exception) -> None:
    found = unpacked(packed(error))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))
    assert isinstance(found, ServiceError | PeragoError)


class LostElsewhereError(OutcomeUnknownError):
    """An error of an adapter of another package, which the driver may not have."""


def test_an_error_of_another_package_is_the_error_of_the_port() -> None:
    found = unpacked(packed(LostElsewhereError("no answer")))
    assert (type(found), str(found)) == (OutcomeUnknownError, "no answer")


def test_a_class_of_another_library_is_not_looked_up() -> None:
    text = json.dumps(["subprocess", "CalledProcessError", "text", {}])
    assert isinstance(unpacked(text), UnavailableError)


def test_a_refusal_ends_the_rows_of_a_part_and_a_defect_is_raised() -> None:
    def rows(error: Exception) -> Iterator[str]:
        yield "row"
        raise error

    assert list(
        ending_with_problem(rows(DamagedObjectError("two bytes")), lambda _: "problem")
    ) == [
        "row",
        "problem",
    ]
    with pytest.raises(KeyError):
        list(ending_with_problem(rows(KeyError("defect")), lambda _: "problem"))


def test_state_of_a_workspace_that_is_gone_is_swept_by_the_next(tmp_path: Path) -> None:
    root = tmp_path / "state"
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    one, two = (PipelineState(root, tmp_path / name) for name in ("one", "two"))
    one.create()
    two.create()
    (tmp_path / "one").rmdir()
    PipelineState(root, tmp_path / "three").create()
    assert not one.folder.exists()
    assert two.incoming.is_dir()
    two.close_incoming()
    assert not two.incoming.exists()
    two.remove()
    assert {path.name[:5] for path in root.iterdir()} == {"three"}


def test_what_a_process_left_that_died_as_it_made_room_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, make = tmp_path / "state", os.mkdir
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = PipelineState(root, tmp_path / "one")

    def make_and_die(folder: Path, mode: int = 0o777) -> None:
        make(folder, mode)
        if folder == one.folder:
            raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(os, "mkdir", make_and_die)
        with pytest.raises(KeyboardInterrupt):
            one.create()
    assert one.folder.exists()
    (tmp_path / "one").rmdir()
    PipelineState(root, tmp_path / "two").create()
    assert {path.name[:3] for path in root.iterdir()} == {"two"}


@pytest.mark.parametrize(
    ("rows", "size", "parts"),
    [
        (0, 0, 1),
        (3, 0, 1),
        (400, 0, 1),
        (1_200, 0, 2),
        (20_000, 0, 2),
        (50_000, 0, 4),
        (10**6, 0, 50),
        (8, 2**28, 2),
        (9, 10**12, 118),
    ],
)
def test_parts_follow_rows_and_bytes(rows: int, size: int, parts: int) -> None:
    session = PipelineSession(None, 2, lambda: pytest.fail("no work"), Event())
    assert session.parts_for(rows, size) == parts


def test_no_job_follows_once_the_step_was_cancelled() -> None:
    given_up = Event()
    session = PipelineSession(None, 2, lambda: pytest.fail("no work"), given_up)
    given_up.set()
    with pytest.raises(UnavailableError, match="was cancelled"):
        session.lazily([1], lambda _: pytest.fail("no job"))


@pytest.mark.parametrize(
    ("changes_lakefs", "kind"), [(False, UnavailableError), (True, OutcomeUnknownError)]
)
def test_a_job_that_failed_leaves_what_it_may_have_written_unknown(
    *, changes_lakefs: bool, kind: type[Exception]
) -> None:
    failed = no_answer("stage it", RuntimeError("lost"), changes_lakefs=changes_lakefs)
    assert (type(failed), str(failed)) == (kind, "Spark could not stage it: lost")
