"""Whose jobs are cancelled at the end of a body, and when Spark is left alone."""

from collections.abc import Sequence

import pytest

from perago.adapters.spark.workspace import cancel_jobs


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
