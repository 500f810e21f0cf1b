"""A plan in files: who writes which rows, and which keys each file answers for."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from perago.adapters.spark.parts import PartWork
from perago.adapters.spark.plan import (
    PlanPart,
    PlanRange,
    WrittenPlan,
    as_planned,
    rows_of,
    rows_of_share,
    write_part,
    written_plan,
)
from perago.domain.key_ranges import KeyRange
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, StagedReference
from perago.domain.sync_plan import PlanKind, PlannedChange
from perago.ports.errors import DamagedObjectError
from perago.ports.lakefs import Change, ChangeKind
from perago.ports.workspace import StagingArea

AREA = StagingArea(
    StagedReference(RepositoryId("repo"), BranchName("staging"), CommitId("c")), "data"
)
FILES = (
    (
        PlannedChange(PlanKind.UPLOAD, "a", "md5a", 1, content_type="text/plain", metadata={}),
        PlannedChange(PlanKind.DELETE, "b"),
        PlannedChange(PlanKind.COPY, "c", "md5c", 3, "z", is_new=True),
    ),
    (),
    (PlannedChange(PlanKind.DELETE, "d"), PlannedChange(PlanKind.UPLOAD, "e", "md5e", 5)),
)
SEEN = {"a": "changed", "b": "removed", "c": "added", "d": "removed", "e": "changed"}


@dataclass
class Branch:
    """Some uncommitted paths, below the prefix or anywhere."""

    changes_: dict[str, str]

    def changes(self, area: StagingArea, part: KeyRange) -> Iterator[Change]:
        """In order of path."""
        del area
        for path in sorted(self.changes_):
            if part.holds(path):
                yield Change(path, ChangeKind(self.changes_[path]))


@pytest.fixture
def written(tmp_path: Path) -> WrittenPlan:
    """Three parts, one of which had nothing to write; told in any order."""
    parts = [
        part for number, rows in enumerate(FILES) for part in write_part(tmp_path, number, rows)
    ]
    return written_plan(tmp_path, parts[::-1])


def test_a_plan_is_the_rows_of_its_files_in_order(written: WrittenPlan, tmp_path: Path) -> None:
    assert [facts.path for facts in written.plan.upload] == ["a", "e"]
    assert [(facts.path, source) for facts, source in written.plan.copy] == [("c", "z")]
    assert list(written.plan.delete) == ["b", "d"]
    assert (len(written.plan.upload), len(written.plan.copy), len(written.plan.delete)) == (2, 1, 2)
    assert [row for part in written.parts for row in rows_of(tmp_path, part.name)] == [
        row for rows in FILES for row in rows
    ]


@pytest.mark.parametrize("amount", [1, 2, 5])
def test_shares_are_all_rows_once_and_of_one_sort(
    amount: int, written: WrittenPlan, tmp_path: Path
) -> None:
    shares = written.shares(writes_max=amount, deletes_max=amount)
    rows = [list(rows_of_share(tmp_path, share)) for share in shares]
    assert all(0 < len(share) <= amount for share in rows)
    assert [row.path for share in rows for row in share] == ["a", "c", "e", "b", "d"]


def test_every_key_of_a_branch_belongs_to_one_file(written: WrittenPlan) -> None:
    assert written.ranges("data") == [
        PlanRange("part-000000.json", KeyRange("", "data/c")),
        PlanRange("part-000002.json", KeyRange("data/c", None)),
    ]
    assert WrittenPlan(written.plan).ranges("data") == [PlanRange(None, KeyRange("", None))]


@pytest.mark.parametrize(
    ("odd", "difference"),
    [
        ({}, None),
        ({"data/b": None}, ("data/b", "removed", None)),
        ({"data/e": None}, ("data/e", "changed", None)),
        ({"data/a": "added"}, ("data/a", "changed", "added")),
        ({"data/bb": "added"}, ("data/bb", None, "added")),
        ({"data/cc": "added"}, ("data/cc", None, "added")),
        ({"another": "removed"}, ("another", None, "removed")),
        ({"data/f": "added"}, ("data/f", None, "added")),
        ({"zoo": "added", "data/e": None}, ("data/e", "changed", None)),
    ],
    ids=str,
)
def test_the_first_path_that_is_not_as_planned_is_named(
    odd: dict[str, str | None],
    difference: tuple[str, str | None, str | None] | None,
    written: WrittenPlan,
    tmp_path: Path,
) -> None:
    seen = {f"data/{path}": kind for path, kind in SEEN.items()} | odd
    branch = Branch({path: kind for path, kind in seen.items() if kind is not None})

    def walk() -> list[str]:
        return [
            row.path
            for part in written.ranges("data")
            for row in as_planned(
                cast("PartWork", branch), AREA, part, rows_of(tmp_path, cast("str", part.name))
            )
        ]

    if difference is None:
        assert walk() == list(SEEN)
        return
    path, expected, found = difference
    with pytest.raises(DamagedObjectError) as refused:
        walk()
    assert str(refused.value) == (
        f"staging branch staging is not what was planned at {path!r}: expected"
        f" {expected or 'no change'}, found {found or 'no change'}; nothing was published"
    )


def test_a_branch_without_a_plan_must_have_no_change() -> None:
    (part,) = WrittenPlan(written_plan(Path(), ()).plan).ranges("data")
    assert not list(as_planned(cast("PartWork", Branch({})), AREA, part, ()))
    with pytest.raises(DamagedObjectError, match="'odd': expected no change, found added"):
        list(as_planned(cast("PartWork", Branch({"odd": "added"})), AREA, part, ()))


def test_a_part_knows_how_much_it_writes() -> None:
    assert PlanPart("part", 2, 3, 4, "z").writes == 5
