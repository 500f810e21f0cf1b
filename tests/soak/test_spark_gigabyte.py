"""A gigabyte of Parquet through three Spark tasks, with a worker, an executor and a task killed."""

import logging
from pathlib import Path

import pytest
from tests.integration.spark_flow_scene import survive_every_kill
from tests.integration.worker_scene import worker_scene
from tests.spark_flow import BYTES_A_ROW

from perago_servers import ConductorServer, LakefsServer

pytestmark = [
    pytest.mark.soak,
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.spark,
    pytest.mark.timeout(3600),
]


async def test_a_gigabyte_survives_a_dead_worker_executor_and_task(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    spark_session: object,
    tmp_path: Path,
) -> None:
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as scene:
        told = await survive_every_kill(scene, spark_session, rows=1_000_000_000 // BYTES_A_ROW)
    logging.getLogger(__name__).info("%s, share of the worker %.5f", told, told.share)
