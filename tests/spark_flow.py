"""The bodies of a workflow of three Spark tasks, two of which are hurt once, and what is right.

Ingest generates orders, clean samples them, total aggregates. Bodies run in workers of their own;
the check computes every row again in plain Python.
"""

import hashlib
import os
import signal
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel
from tests.executor_killer import executor_killer

from perago.ports.workspace import SparkWorkspace

CUSTOMERS = 97
SAMPLE = 1000
BYTES_A_ROW = 38  # of Parquet: a hash does not compress
PARTITIONS = 8
LINGER_SECONDS = 600

FromSpark: TypeAlias = Any  # sessions, rows and frames


class Params(BaseModel):
    """How many orders there are."""

    rows: int


class Rows(BaseModel):
    """How many rows a task wrote."""

    rows: int


def ingest(workspace: SparkWorkspace, params: Params, marks: Path) -> Rows:
    """Generate orders; the first time never end, so that the worker can be killed in here."""
    orders = workspace.spark.range(0, params.rows, 1, PARTITIONS).selectExpr(
        "id",
        f"id * 31 % {CUSTOMERS} as customer",
        "id * 7919 % 1000 as amount",
        "md5(cast(id as string)) as receipt",
    )
    is_first = _mark(marks / "ingest-begun")
    workspace.write(orders, "orders")
    if is_first:
        time.sleep(LINGER_SECONDS)  # noqa: TID251 - a body of a team has no Clock
    return Rows(rows=params.rows)


def clean(workspace: SparkWorkspace, params: Params, marks: Path) -> Rows:
    """Take a sample; an executor JVM is killed while it writes."""
    del params
    sample = workspace.table("orders").where(f"id % {SAMPLE} = 0").repartition(4)
    hurt = sample.rdd.mapPartitions(_executor_killer(marks / "executor-killed"))
    workspace.write(hurt.toDF(sample.schema), "sample")
    return Rows(rows=sample.count())


def total(workspace: SparkWorkspace, params: Params, marks: Path) -> Rows:
    """Aggregate; the process of a Spark task is killed while it writes."""
    del params
    orders = workspace.table("orders")
    totals = orders.groupBy("customer").agg({"amount": "sum", "id": "count"})
    named = totals.toDF(*[column.replace("(", "_").rstrip(")") for column in totals.columns])
    hurt = named.rdd.mapPartitions(_task_killer(marks / "task-killed"))
    workspace.write(hurt.toDF(named.schema), "totals")
    return Rows(rows=CUSTOMERS)


def _mark(path: Path) -> bool:
    """Whether this is the first time."""
    is_first = not path.exists()
    path.touch()
    return is_first


def _task_killer(mark: Path) -> Callable[[Iterator[FromSpark]], Iterator[FromSpark]]:
    """Kill the process of a task after a row. The executors have no module of tests: a closure."""

    def kill_once(rows: Iterator[FromSpark]) -> Iterator[FromSpark]:
        for row in rows:
            yield row
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    return kill_once


def _executor_killer(mark: Path) -> Callable[[Iterator[FromSpark]], Iterator[FromSpark]]:
    """Kill the JVM above a Python worker once, after a row was written."""
    die_once = executor_killer(mark.parent)

    def kill_once(rows: Iterator[FromSpark]) -> Iterator[FromSpark]:
        for row in rows:
            yield row
            die_once(mark.name)

    return kill_once


def check_tables(session: FromSpark, root: str, rows: int) -> None:
    """Compare every table with what plain Python computes."""
    amounts, counts, checksum = Counter[int](), Counter[int](), 0
    sample: list[tuple[int, int, int, str]] = []
    for number in range(rows):
        customer, amount = number * 31 % CUSTOMERS, number * 7919 % 1000
        receipt = hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest()
        checksum += zlib.crc32(f"{number}|{customer}|{amount}|{receipt}".encode())
        amounts[customer] += amount
        counts[customer] += 1
        if number % SAMPLE == 0:
            sample.append((number, customer, amount, receipt))
    orders = session.read.parquet(f"{root}/orders").selectExpr(
        "count(*)", "sum(crc32(concat_ws('|', id, customer, amount, receipt)))"
    )
    assert [tuple(row) for row in orders.collect()] == [(rows, checksum)]
    kept = session.read.parquet(f"{root}/sample").select("id", "customer", "amount", "receipt")
    assert sorted(tuple(row) for row in kept.collect()) == sample
    totals = session.read.parquet(f"{root}/totals").select("customer", "sum_amount", "count_id")
    assert sorted(tuple(row) for row in totals.collect()) == [
        (customer, amounts[customer], counts[customer]) for customer in sorted(counts)
    ]
