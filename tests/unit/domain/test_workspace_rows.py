"""Rows of a large workspace travel between processes as plain values."""

import json
import pickle

import pytest

from perago.domain.sync_plan import (
    Folder,
    FoundFile,
    ListedObject,
    PlacedFile,
    PlanKind,
    PlannedChange,
    ReadFile,
    SeenChange,
    WrittenBatch,
)

ROWS = (
    ListedObject("a", "md5", 1, "text/plain", {"k": "v"}, "a", {"f": "f"}),
    PlacedFile("a", 1, 2, 3, 4, "md5", "text/plain", {"k": "v"}),
    FoundFile("a", 1, 2, 3, 4),
    ReadFile("a", "md5", 1, base_md5="old", base_size=2),
    PlannedChange(PlanKind.COPY.value, "a", "md5", 1, source="b", is_new=True),
    WrittenBatch(1, 2, 3, 4),
    SeenChange("a", "added"),
    Folder("a", is_deep=True),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_row_survives_any_way_of_travelling(row: tuple[object, ...]) -> None:
    assert pickle.loads(pickle.dumps(row)) == row  # noqa: S301 - its own
    assert tuple(json.loads(json.dumps(row))) == tuple(row)


@pytest.mark.parametrize("kind", [FoundFile, SeenChange])
def test_a_problem_needs_no_more_than_its_text(kind: type[FoundFile]) -> None:
    assert kind("", problem="refused").problem == "refused"
    assert kind("a").problem is None


def test_a_file_begins_alike_when_it_is_placed_and_when_it_is_found() -> None:
    *found, _ = FoundFile._fields
    assert PlacedFile._fields[: len(found)] == tuple(found)
