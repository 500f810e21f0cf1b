"""Which objects of a Spark job are litter, and which should never have been written."""

import pytest

from perago.domain.names import is_foreign_write, is_job_litter


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
