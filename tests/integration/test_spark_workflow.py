"""Ingest, Spark transform, Spark aggregate under a real worker: the short form of the soak."""

from pathlib import Path

import pytest
from tests.integration.spark_flow_scene import survive_every_kill
from tests.integration.worker_scene import worker_scene
from tests.spark_flow import BYTES_A_ROW

from perago_servers import ConductorServer, LakefsServer

pytestmark = [
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.spark,
    pytest.mark.timeout(600),
]


async def test_three_spark_tasks_survive_a_dead_worker_executor_and_task(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    spark_session: object,
    tmp_path: Path,
) -> None:
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as scene:
        await survive_every_kill(scene, spark_session, rows=50_000_000 // BYTES_A_ROW)
