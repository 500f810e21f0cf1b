"""A machine on which Spark cannot work: one clear error, nothing published, no JVM left behind."""

import re
import signal
from pathlib import Path

import pytest
from tests.integration.spark_flow_scene import (
    declare_steps,
    descendants,
    program_of,
    spark_environment,
    start_steps,
)
from tests.integration.worker_scene import worker_scene

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ConductorServer, LakefsServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.spark]


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"JAVA_HOME": "no-java"}, r"expected Java 17 .* found no Java; install a JDK"),
        ({"XDG_CACHE_HOME": "no-jars"}, r"found no hadoop-aws; run `perago spark jars`"),
        (
            {"PERAGO_SPARK_CONF_spark_jars": "jars/hadoop-aws-3.3.4.jar"},
            r"expected hadoop-aws .* found hadoop-aws 3\.3\.4",
        ),
        (
            {"PERAGO_SPARK_MASTER": "spark://127.0.0.1:1"},
            r"spark://127\.0\.0\.1:1 gave no session: .*refused.*check PERAGO_SPARK_MASTER",
        ),
        ({"PERAGO_SPARK_MASTER": "sc://127.0.0.1:1"}, r"sc://127\.0\.0\.1:1 gave no session"),
    ],
    ids=["no JVM", "missing jars", "wrong Hadoop", "master unreachable", "no Connect server"],
)
async def test_a_machine_without_spark_publishes_nothing(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    tmp_path: Path,
    setting: dict[str, str],
    text: str,
) -> None:
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as scene:
        modules = await declare_steps(scene, ["ingest"], retries=0)
        fenced = await scene.lakefs.install_fence(scene.repository)
        workflow = await start_steps(scene, modules, fenced, rows=10)
        environment = spark_environment(scene) | setting
        async with scene.worker(modules, root=tmp_path / "root", **environment) as worker:
            record = await scene.ended(workflow)
            below = [program_of(pid) for pid in descendants(worker.pid)]
            worker.signal(signal.SIGTERM)  # the branch goes after the failure was reported
            assert await worker.exit_code() == 0

        assert record.status is WorkflowStatus.FAILED
        (attempt,) = record.attempts
        assert attempt.snapshot.status in {
            AttemptStatus.FAILED,
            AttemptStatus.FAILED_WITH_TERMINAL_ERROR,
        }
        assert re.search(text, str(attempt.reason)), attempt.reason
        assert "java" not in below
        head = await scene.lakefs.branches.head(scene.repository, MAIN)
        assert head.commit == fenced
        assert (
            await scene.lakefs.branches.list_page(scene.repository, "perago-", show_hidden=True)
        ).items == ()
