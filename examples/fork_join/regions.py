"""Two tasks side by side, each on a branch of its own, and one that adds up their results."""

from pathlib import Path

from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, TimeoutPolicy, WorkspaceSpec, task

CONTROLS = TaskControls(
    retry=RetryPolicy(count=3, delay_seconds=0), timeout=TimeoutPolicy(response_seconds=30)
)


class NoParams(BaseModel):
    """Nothing to choose."""


class Total(BaseModel):
    """A sum."""

    total: int


class Totals(BaseModel):
    """The sums of both regions."""

    north: int
    south: int


@task(
    name="regions.sum",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="sales"),
    controls=CONTROLS,
)
def sum_region(workspace: Path, params: NoParams) -> Total:
    """Add up the numbers of one region."""
    del params
    total = sum(int(line) for line in (workspace / "numbers.txt").read_text().split())
    (workspace / "total.txt").write_text(f"{total}\n")
    return Total(total=total)


@task(name="regions.add", owner_email="data@example.com", controls=CONTROLS)
def add_regions(params: Totals) -> Total:
    """Add up what the join collected."""
    return Total(total=params.north + params.south)
