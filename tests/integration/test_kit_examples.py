"""The examples on real servers, by the option that users have: `--perago-backend=real`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perago_servers import ConductorServer, LakefsServer
from perago_servers.environment import variables

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]


@pytest.mark.parametrize(
    "example",
    [
        "quickstart",
        "fork_join",
        "checked_orders/test_orders.py",
        pytest.param("checked_orders/test_daily.py", marks=pytest.mark.spark),
        pytest.param("spark_pipeline", marks=pytest.mark.spark),
    ],
)
def test_an_example_passes_on_real_servers(
    lakefs_server: LakefsServer, conductor_workers_server: ConductorServer, example: str
) -> None:
    servers = variables("lakefs", lakefs_server)
    servers |= variables("conductor-workers", conductor_workers_server)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", f"examples/{example}"]
    ran = subprocess.run(
        [*command, "--perago-backend=real", "-p", "no:randomly"],
        cwd=ROOT,
        env={**os.environ, **servers},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
