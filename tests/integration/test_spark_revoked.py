"""An attempt that is revoked has its Spark jobs cancelled; until then it says how far they are."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from perago.adapters.spark.session import SparkConfiguration
from perago.adapters.spark.workspace import SparkCall, open_workspace
from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports.workspace import SparkRoots

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("any_master")]

HANG_SECONDS = 300


def test_a_revoked_attempt_tells_its_progress_and_loses_its_jobs(
    spark_session: Any,  # noqa: ANN401 - a pyspark session
    tmp_path: Path,
) -> None:
    told: list[tuple[str, Mapping[str, object]]] = []
    revoked = threading.Event()

    def report(message: str, facts: Mapping[str, object]) -> None:
        told.append((message, facts))
        revoked.set()

    def sleep(seconds: float) -> None:
        time.sleep(seconds)  # noqa: TID251 - a body of a team has no Clock

    root = f"file://{tmp_path}/"
    place = SparkRoots(RepositoryId("repo"), CommitId("input"), "lake", root, root)
    call = SparkCall("execution-1", "a task that hangs", revoked.is_set, report)
    context = spark_session.sparkContext
    began = time.monotonic()
    with (
        open_workspace(SparkConfiguration(), place, call) as workspace,
        pytest.raises(Exception, match=r"cancelled|canceled"),
    ):
        workspace.spark.sparkContext.parallelize([HANG_SECONDS] * 4, 4).map(sleep).count()

    assert time.monotonic() - began < HANG_SECONDS / 2
    message, facts = told[0]
    assert message == "spark"
    assert (facts["jobs"], facts["tasks"], facts["tasks_done"]) == (1, 4, 0)
    assert list(context.statusTracker().getActiveJobsIds()) == []
