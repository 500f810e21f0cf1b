"""A standalone cluster on this machine: master and worker JVMs of pyspark's own distribution."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.integration.spark_flow_scene import (
    declare_steps,
    spark_environment,
    start_steps,
)
from tests.integration.worker_scene import worker_scene

from perago.adapters.spark.jars import java_program, pyspark_jars
from perago.domain.attempt import WorkflowStatus
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ConductorServer, LakefsServer

pytestmark = [
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(600),
]

HOST = "127.0.0.1"
ROWS = 5000


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """The address of a master that has one worker."""
    master, port = f"org.apache.spark.deploy.master.Master --host {HOST}", free_port()
    worker = f"org.apache.spark.deploy.worker.Worker --host {HOST} --cores 2 --memory 1g"
    address = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        for arguments in (
            f"{master} --port {port} --webui-port 0",
            f"{worker} --webui-port 0 --work-dir {tmp_path / 'standalone'} {address}",
        ):
            process = start_jvm(arguments, tmp_path / "standalone.log")
            stack.callback(process.wait)
            stack.callback(process.kill)
            wait_for_port(port, process)
        yield address


def start_jvm(arguments: str, log: Path) -> subprocess.Popen[bytes]:
    """Start one class of Spark."""
    java = java_program()
    assert java is not None
    command = [java, "-Xmx256m", "-cp", f"{pyspark_jars()}/*", *arguments.split()]
    environment = {
        "SPARK_HOME": str(pyspark_jars().parent),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_SCALA_VERSION": "2.13",  # what the scripts of a full distribution export
    }
    with log.open("ab") as output:
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return when the master listens."""
    for _ in range(600):
        assert process.poll() is None
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            time.sleep(0.1)  # noqa: TID251 - a JVM starts
        else:
            return
    raise AssertionError("no master")


async def test_a_spark_task_runs_on_a_standalone_cluster(
    lakefs_server: LakefsServer,
    conductor_server: ConductorServer,
    standalone: str,
    tmp_path: Path,
) -> None:
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as scene:
        modules = await declare_steps(scene, ["ingest"])
        (tmp_path / "marks" / "ingest-begun").touch()  # nobody is killed here
        fenced = await scene.lakefs.install_fence(scene.repository)
        workflow = await start_steps(scene, modules, fenced, rows=ROWS)
        environment = spark_environment(scene) | {
            "PERAGO_SPARK_MASTER": standalone,
            "PYSPARK_PYTHON": sys.executable,
        }
        async with scene.worker(modules, root=tmp_path / "root", **environment):
            record = await scene.ended(workflow, seconds_max=300)
        assert record.status is WorkflowStatus.COMPLETED, record.reason
        listed = await scene.lakefs.objects.list_page(scene.repository, MAIN, prefix="lake/orders/")
        assert len(listed.items) == 8
    assert "Registered app" in (tmp_path / "standalone.log").read_text()
