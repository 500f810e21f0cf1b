"""Ranges of keys: each key in exactly one, and about as many as were wanted.

Few questions that show a few paths of a large tree.

Files of Spark jobs count when a manifest names them, and only then.

Which objects of a Spark job are litter, and which should never have been written.
"""

import asyncio
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.key_ranges import (
    QUESTIONS_MAX,
    JobFiles,
    KeyRange,
    ListingWindow,
    cut_keys,
    is_foreign_write,
    is_job_litter,
    manifest_job,
    parse_manifest,
    windows,
    writing_job,
)


def cut(keys: list[str], wanted: int, prefix: str = "") -> tuple[list[KeyRange], int]:
    """Cut a list of keys, and count the questions."""
    listing, questions = sorted(keys), [0]

    async def next_key(after: str) -> str | None:
        questions[0] += 1
        place = bisect_right(listing, after)
        return listing[place] if place < len(listing) else None

    return asyncio.run(cut_keys(next_key, prefix, wanted)), questions[0]


@given(st.lists(st.text(min_size=1, max_size=6), unique=True), st.integers(1, 9))
def test_every_key_is_in_exactly_one_range(keys: list[str], wanted: int) -> None:
    ranges, questions = cut(keys, wanted)
    for key in keys:
        assert sum(each.holds(key) for each in ranges) == 1
    assert questions <= 2 * QUESTIONS_MAX


@pytest.mark.parametrize("wanted", [4, 10, 100])
def test_numbered_parts_are_cut_evenly(wanted: int) -> None:
    keys = [f"lake/daily/part-{number:05}.parquet" for number in range(10_000)]
    ranges, questions = cut(keys, wanted, "lake/")
    held = [sum(each.holds(key) for key in keys) for each in ranges]
    assert len(ranges) >= wanted
    assert max(held) <= 10_000 // 10
    assert questions < 200


def test_nothing_is_one_range() -> None:
    ranges, _ = cut([], 8)
    assert ranges == [KeyRange("", None)]


TREE = [f"f{number:04}" for number in range(2500)]
NUMBERS = st.sets(st.integers(0, len(TREE) - 1))


def shown(window: ListingWindow) -> list[str]:
    """What a listing answers to one question."""
    found = [p for p in TREE if p.startswith(window.prefix) and p > window.after]
    return found[: window.amount]


@given(NUMBERS, st.sampled_from([1, 10, 1000]))
def test_every_wanted_path_is_shown(numbers: set[int], amount_max: int) -> None:
    wanted = [TREE[number] for number in sorted(numbers)]
    asked = windows(TREE, wanted, amount_max=amount_max)
    seen = {path for window in asked for path in shown(window)}
    assert seen.issuperset(wanted)
    assert len(asked) <= len(wanted)
    assert all(1 <= window.amount <= amount_max for window in asked)


def test_a_lone_path_is_asked_for_by_its_name() -> None:
    assert windows(TREE, ["f0042"], amount_max=1000) == (ListingWindow("f0042", "", "f0042", 1),)


def test_neighbours_share_a_question() -> None:
    (window,) = windows(TREE, ["f0000", "f0999"], amount_max=1000)
    assert window == ListingWindow("", "", "f0999", 1000)


def test_distant_paths_do_not() -> None:
    assert len(windows(TREE, ["f0000", "f1000", "f2400"], amount_max=1000)) == 3


def test_nothing_wanted_is_nothing_asked() -> None:
    assert windows(TREE, [], amount_max=1000) == ()


JOB = "0f0e7b2c-9a1d-4b7e-8f00-aabbccddeeff"
OTHER = "1f0e7b2c-9a1d-4b7e-8f00-aabbccddeeff"


def _file(job: str, attempt: int, part: int = 0) -> str:
    return f"lake/daily/part-{part:05}-{job}-try{attempt}.c000.snappy.parquet"


def test_names_tell_the_job() -> None:
    assert writing_job(_file(JOB, 7)) == JOB
    assert writing_job("lake/daily/part-00000-of-somebody.parquet") is None
    assert writing_job(f"lake/{_file(JOB, 1).split('/')[-1]}/other.parquet") is None
    assert manifest_job(f"lake/daily/_perago_committed-{JOB}") == JOB
    assert manifest_job("lake/daily/part-0") is None


def test_a_loser_and_a_job_without_a_manifest_do_not_count() -> None:
    jobs = JobFiles()
    won, lost, never = _file(JOB, 1), _file(JOB, 2), _file(OTHER, 3)
    manifest = f"lake/daily/_perago_committed-{JOB}"
    for path in (won, lost, never, manifest):
        assert jobs.take(path)
    assert not jobs.take("lake/other.csv")
    content = f"{won}\n".encode()
    assert sorted(jobs.losers({JOB: parse_manifest(content)})) == sorted([lost, never])
    assert jobs.manifests == {JOB: manifest}


def test_an_empty_manifest_names_nothing() -> None:
    assert parse_manifest(b"") == frozenset()


@pytest.mark.parametrize(
    "path",
    [
        "lake/daily/",
        "lake/daily/_SUCCESS",
        "lake/daily/_temporary/0/task_1/part-0.parquet",
        "lake/daily/__magic/job-1/part-0.pending",
        "lake/daily/__magic_job-1/part-0",
        "lake/daily/.part-0.parquet.crc",
        "lake/daily/._SUCCESS.crc",
        "lake/.spark-staging-9/daily/part-0",
        "lake/daily/_started_77",
    ],
)
def test_what_commit_protocols_leave_is_litter(path: str) -> None:
    assert is_job_litter(path)


@pytest.mark.parametrize(
    "path",
    [
        "lake/daily/part-0.parquet",
        "lake/daily/_delta_log/00000000000000000000.json",
        "lake/daily/_delta_log/00000000000000000001.crc",
        "lake/daily/metadata/v1.metadata.json",
        "lake/daily/SUCCESS",
        "lake/my_temporary/a",
        "lake/.hidden",
    ],
)
def test_tables_are_no_litter(path: str) -> None:
    assert not is_job_litter(path)


@pytest.mark.parametrize(
    ("path", "prefix", "foreign"),
    [
        ("lake/a", "lake", False),
        ("lakeside/a", "lake", True),
        ("other/a", "lake", True),
        ("a", "/", False),
        ("_lakefs_actions/x.yaml", "/", True),
        ("lake/.perago-attempt.json", "lake", True),
    ],
)
def test_writes_belong_under_the_prefix(path: str, prefix: str, *, foreign: bool) -> None:
    assert is_foreign_write(path, prefix) is foreign
