"""Files of rows: cut by number and size, whole or not there, the same when written again."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from perago.adapters.spark.rows import file_name, portions, read_rows, write_rows
from perago.domain.sync_plan import ListedObject

GIB = 1024**3


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        ([], []),
        ([0], [1]),
        ([1] * 1_250, [1_250]),
        ([1] * 5_000, [1_250, 2_500, 1_250]),
        ([GIB // 4] * 8, [1, 1, 1, 2, 3]),
        ([0] * 60_000, [1_250, 2_500, 5_000, 10_000, 20_000, 20_000, 1_250]),
    ],
)
def test_portions_grow_by_number_and_by_bytes(sizes: list[int], lengths: list[int]) -> None:
    rows = [ListedObject(str(number), size=size) for number, size in enumerate(sizes)]
    cut = list(portions(iter(rows)))
    assert [len(portion) for portion in cut] == lengths
    assert list(chain.from_iterable(cut)) == rows


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [
        ListedObject('odd \n"ü\U0001f600', "md5", 2**62, "text/plain", {"k": "v"}),
        ListedObject("b", folders={"F": "f"}),
    ]
    for _ in range(2):
        write_rows(tmp_path, "part-1.json", rows)
        assert [ListedObject(**line) for line in read_rows(tmp_path, "part-1.json")] == rows
        assert [path.name for path in tmp_path.iterdir()] == ["part-1.json"]


def test_rows_that_end_early_leave_no_file_of_the_name(tmp_path: Path) -> None:
    def rows() -> Iterator[ListedObject]:
        yield ListedObject("a")
        raise KeyError

    with pytest.raises(KeyError):
        write_rows(tmp_path, "part-1.json", rows())
    assert not list(tmp_path.glob("part-*"))


def test_names_of_files_are_in_the_order_of_their_numbers() -> None:
    numbers = [(0, 0), (0, 11), (1, 0), (10, 2), (99_999, 1)]
    names = [file_name(*each) for each in numbers]
    assert names == sorted(names)
    assert names[0] == "part-000000-000000.json"
