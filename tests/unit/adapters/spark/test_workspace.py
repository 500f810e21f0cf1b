"""Paths of a Spark workspace become URIs or are refused; whose jobs are cancelled at its end."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from perago.adapters.spark.workspace import cancel_jobs, input_uri, output_uri
from perago.domain.errors import ReadOnlyWorkspaceError, SparkPathError
from perago.domain.lakefs import BranchName, CommitId, RepositoryId
from perago.ports.workspace import SparkRoots

PLACE = SparkRoots(
    repository=RepositoryId("repo"),
    input_ref=CommitId("c1"),
    prefix="lake",
    input_root="s3a://repo/c1/",
    output_root="s3a://repo/staging/",
    staging_branch=BranchName("staging"),
)


@pytest.mark.parametrize(
    ("prefix", "path", "uri"),
    [
        ("lake", "daily", "s3a://repo/c1/lake/daily"),
        ("lake", "daily/day=1/", "s3a://repo/c1/lake/daily/day=1"),
        ("/", "daily", "s3a://repo/c1/daily"),
        ("a/b", "c d/*.csv", "s3a://repo/c1/a/b/c d/*.csv"),
        ("lake", "day=1/10:30", "s3a://repo/c1/lake/day=1/10:30"),
    ],
)
def test_a_path_is_below_the_prefix(prefix: str, path: str, uri: str) -> None:
    place = replace(PLACE, prefix=prefix)
    assert input_uri(place, path) == uri
    assert output_uri(place, path) == uri.replace("/c1/", "/staging/")


@pytest.mark.parametrize(
    "path",
    ["", "/", "/daily", "../x", "a/../x", "a//b", ".", "a\\b", "s3a://repo/main/x", "file:/x"],
)
def test_what_leads_out_is_refused(path: str) -> None:
    with pytest.raises(SparkPathError):
        input_uri(PLACE, path)
    with pytest.raises(SparkPathError):
        output_uri(PLACE, path)


def test_a_read_only_place_has_no_output() -> None:
    place = replace(PLACE, output_root=None)
    assert input_uri(place, "daily") == "s3a://repo/c1/lake/daily"
    with pytest.raises(ReadOnlyWorkspaceError, match="daily"):
        output_uri(place, "daily")


class Jobs:
    """A context with jobs: those of the group, and those that run."""

    def __init__(self, of_group: Sequence[int], active: Sequence[int]) -> None:
        self.of_group = {"mine": of_group}
        self.active = active
        self.cancelled: list[str] = []

    def statusTracker(self) -> "Jobs":
        """Say it oneself."""
        return self

    def getJobIdsForGroup(self, group: str) -> list[int]:
        """Jobs that a group ever had."""
        return [*self.of_group.get(group, ())]

    def getActiveJobsIds(self) -> list[int]:
        """Jobs that run."""
        return [*self.active]

    def cancelJobGroup(self, group: str) -> None:
        """Remember that it was asked."""
        self.cancelled.append(group)


@pytest.mark.parametrize(
    ("of_group", "active", "cancelled"),
    [
        ((), (), []),
        ((1, 2), (), []),
        ((1, 2), (3,), []),
        ((1, 2), (2, 3), ["mine"]),
    ],
    ids=["no job", "all ended", "only a neighbour's job runs", "one still runs"],
)
def test_a_group_is_cancelled_only_while_one_of_its_jobs_runs(
    of_group: Sequence[int], active: Sequence[int], cancelled: list[str]
) -> None:
    context = Jobs(of_group, active)
    cancel_jobs(context, "mine")
    assert context.cancelled == cancelled
