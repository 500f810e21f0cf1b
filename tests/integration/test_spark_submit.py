"""A worker that spark-submit starts: its bodies run in the session of spark-submit's own JVM."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.documented_commands import page_lines
from tests.integration.spark_flow_scene import (
    declare_steps,
    descendants,
    program_of,
    start_steps,
)
from tests.integration.worker_scene import TaskModule, WorkerScene, worker_scene

from perago.adapters.spark.jars import pyspark_jars
from perago.domain.attempt import WorkflowStatus
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ConductorServer, LakefsServer

pytestmark = [
    pytest.mark.lakefs,
    pytest.mark.conductor,
    pytest.mark.spark,
    pytest.mark.timeout(240),
]

ROOT = Path(__file__).parents[2]
ROWS = 1000
MASTER = "local[2,3]"


async def test_a_worker_under_spark_submit_publishes_by_its_session(
    lakefs_server: LakefsServer, conductor_server: ConductorServer, tmp_path: Path
) -> None:
    async with worker_scene((lakefs_server, conductor_server), tmp_path) as scene:
        (module,) = await declare_steps(scene, ["ingest"], retries=0)
        (tmp_path / "marks" / "ingest-begun").touch()  # nobody is killed here
        fenced = await scene.lakefs.install_fence(scene.repository)
        workflow = await start_steps(scene, [module], fenced, rows=ROWS)
        process = await submit(scene, module)
        try:
            record = await scene.ended(workflow, seconds_max=120)
            below = {program_of(pid): pid for pid in descendants(process.pid)}
            for name, pid in below.items():
                if name.startswith("python"):
                    os.kill(pid, signal.SIGTERM)
            code = await asyncio.wait_for(process.wait(), 60)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

        screen = (tmp_path / "screen").read_text()
        assert record.status is WorkflowStatus.COMPLETED, (record.reason, screen)
        assert code == 0, screen
        assert [name for name in below if "java" in name] == []  # no JVM but spark-submit's own
        events = (tmp_path / "events").rglob("*")
        told = "".join(path.read_text() for path in events if path.is_file())
        assert f'"spark.master":"{MASTER}"' in told
        assert '"spark.app.name":"submitted"' in told
        listed = await scene.lakefs.objects.list_page(scene.repository, MAIN, prefix="lake/orders/")
        assert len(listed.items) == 8
        assert all("-try" in entry.path for entry in listed.items)  # by our commit protocol


async def submit(scene: WorkerScene, module: TaskModule) -> asyncio.subprocess.Process:
    """Start a worker of one module by the lines of docs/spark.md.

    There is no YARN here, so the master is this machine; the module is the test's own.
    """
    program, exported, submitted = page_lines(
        "docs/spark.md", "echo 'from perago", "export PYSPARK_PYTHON=", "spark-submit"
    )
    events = scene.folder / "events"
    events.mkdir()
    options = [
        "spark.driver.bindAddress=127.0.0.1",
        "spark.driver.host=127.0.0.1",
        "spark.eventLog.enabled=true",
        "spark.eventLog.compress=false",
        f"spark.eventLog.dir={events.as_uri()}",
    ]
    here = " ".join(
        (f"--master {MASTER} --name submitted", *(f"--conf {each}" for each in options))
    )
    assert "--master yarn" in submitted
    assert "start daily" in submitted
    submitted = submitted.replace("--master yarn", here).replace("daily", module.name)
    programs = (Path(sys.executable).parent, pyspark_jars().parent / "bin", os.environ["PATH"])
    found = {
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "PATH": os.pathsep.join(map(str, programs)),
    }
    with (scene.folder / "screen").open("w") as output:
        return await asyncio.create_subprocess_exec(
            *("bash", "-ec", "\n".join((program, exported, f"exec {submitted}"))),
            cwd=scene.folder,
            env=scene.environment(scene.folder / "root") | found,
            stdout=output,
            stderr=output,
        )
