"""Laws of SparkWorkspace, on S3A paths of a real lakeFS and on local files."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from tests.contract.adapters import Factory, parameters
from tests.contract.spark_harnesses import SPARK, SparkHarness

from perago.domain.errors import ReadOnlyWorkspaceError, SparkPathError
from perago.ports.workspace import SparkWorkspace

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("any_master")]


@pytest_asyncio.fixture(params=parameters(SPARK))
async def harness(
    request: pytest.FixtureRequest, spark_session: object
) -> AsyncIterator[SparkHarness]:
    """One place for each adapter."""
    del spark_session  # it is the one that workspaces find
    factory: Factory[SparkHarness] = request.param
    async with factory(request) as opened:
        yield opened


def numbers(workspace: SparkWorkspace, where: str) -> list[int]:
    """The numbers of a Parquet table."""
    return sorted(row[0] for row in workspace.spark.read.parquet(where).select("id").collect())


def test_X1_reads_are_of_the_input(harness: SparkHarness) -> None:
    with harness.open() as workspace:
        more = workspace.spark.createDataFrame([(4, 40)], "order int, amount int")
        workspace.write(more, "orders", mode="append", format="json")
        assert workspace.table("orders", format="json").count() == 3
        assert workspace.read.json("orders").count() == 3
        assert workspace.input_ref == harness.place.input_ref
        assert workspace.prefix == "lake"


def test_X2_writes_are_on_staging(harness: SparkHarness) -> None:
    with harness.open() as workspace:
        workspace.write(workspace.spark.range(5).repartition(2), "numbers")
        assert numbers(workspace, workspace.output("numbers")) == [0, 1, 2, 3, 4]
        with pytest.raises(Exception, match="PATH_NOT_FOUND"):
            workspace.table("numbers")


def test_X3_overwriting_replaces_the_table(harness: SparkHarness) -> None:
    with harness.open() as workspace:
        workspace.write(workspace.spark.range(5), "numbers")
        workspace.write(workspace.spark.range(2), "numbers")
        assert numbers(workspace, workspace.output("numbers")) == [0, 1]
        empty = workspace.spark.range(0)
        workspace.write(empty, "orders")
        assert numbers(workspace, workspace.output("orders")) == []
        assert workspace.read.json("orders").count() == 3
    with SparkHarness(replace(harness.place, prefix="/")).open() as whole:
        whole.write(whole.spark.range(3), "lake")
        assert numbers(whole, whole.output("lake")) == [0, 1, 2]


def test_X4_partitions_are_directories(harness: SparkHarness) -> None:
    with harness.open() as workspace:
        split = workspace.spark.range(6).selectExpr("id", "id % 2 as half")
        workspace.write(split, "split", partition_by=["half"])
        odd = workspace.spark.read.parquet(workspace.output("split/half=1"))
        assert sorted(row.id for row in odd.collect()) == [1, 3, 5]
        whole = workspace.spark.read.parquet(workspace.output("split"))
        assert set(whole.columns) == {"id", "half"}


def test_X5_formats_round_trip(harness: SparkHarness) -> None:
    with harness.open() as workspace:
        for name in ("parquet", "csv", "json", "orc"):
            workspace.write(workspace.spark.range(3), name, format=name)
            back = workspace.spark.read.format(name).load(workspace.output(name))
            assert sorted(int(row[0]) for row in back.collect()) == [0, 1, 2], name
        assert workspace.read.text("notes").collect()[0].value == "hello"
        assert workspace.spark.read.text(workspace.uri("notes/a.txt")).count() == 1


def test_X6_paths_stay_inside(harness: SparkHarness) -> None:
    with harness.open() as workspace:
        for path in ("../other", "/lake", "s3a://repo/main/x"):
            with pytest.raises(SparkPathError):
                workspace.output(path)
            with pytest.raises(SparkPathError):
                workspace.table(path)


def test_X7_read_only_has_no_output(harness: SparkHarness) -> None:
    with harness.open(read_only=True) as workspace:
        assert workspace.read.json("orders").count() == 3
        with pytest.raises(ReadOnlyWorkspaceError):
            workspace.write(workspace.spark.range(1), "numbers")


def test_X8_a_missing_table_is_named(harness: SparkHarness) -> None:
    with harness.open() as workspace, pytest.raises(Exception, match="lake/nowhere"):
        workspace.table("nowhere").count()
