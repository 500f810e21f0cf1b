"""A task that writes a Parquet file, and two checks of it: rules of pandera, and a plain one."""

from pathlib import Path

import pandera.polars as pa
import polars as pl
from pydantic import BaseModel

from perago import (
    RetryPolicy,
    StagedView,
    TaskControls,
    TaskTerminalError,
    TimeoutPolicy,
    WorkspaceSpec,
    require_glob,
    task,
)


class NoParams(BaseModel):
    """Nothing to choose."""


class Written(BaseModel):
    """How many rows the task wrote."""

    rows: int


class Orders(pa.DataFrameModel):
    """What every row has to be, whoever wrote it."""

    order: str = pa.Field(unique=True)
    amount: int = pa.Field(ge=0)


def orders_are_sound(view: StagedView) -> None:
    """Judge the tables that the commit adds or changes; the others were judged before."""
    for path in (*view.added, *view.changed):
        if path.endswith(".parquet"):
            with view.open(path) as file:
                Orders.validate(pl.read_parquet(file))


def raw_files_stay(view: StagedView) -> None:
    """A retry would remove them again, so it is not tried."""
    lost = [path for path in view.removed if path.startswith("raw/")]
    if lost:
        raise TaskTerminalError(f"{lost[0]} is raw data and was removed")


@task(
    name="orders.clean",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(
        prefix="orders",
        pre=[require_glob("raw/*.csv")],
        checks=[raw_files_stay, orders_are_sound],
    ),
    controls=TaskControls(
        retry=RetryPolicy(count=1, delay_seconds=0), timeout=TimeoutPolicy(response_seconds=30)
    ),
)
def clean(workspace: Path, params: NoParams) -> Written:
    """Bring the orders of all raw files into one table."""
    del params
    schema = {"order": pl.String, "amount": pl.Int64}
    raw = [pl.read_csv(path, schema=schema) for path in sorted(workspace.glob("raw/*.csv"))]
    orders = pl.concat(raw)
    orders.write_parquet(workspace / "orders.parquet")
    return Written(rows=orders.height)
