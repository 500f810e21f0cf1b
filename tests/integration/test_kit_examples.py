"""The examples on real servers, by the option that users have: `--perago-backend=real`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perago_servers import ConductorServer, LakefsServer

ROOT = Path(__file__).parents[2]
# Of one test of an example. That of `fork_join` in which a side dies takes two minutes: Conductor
# looks at a JOIN after pauses that double, so it sees the late side only after 117 s.
SECONDS_MAX = 250
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
    servers = lakefs_server.variables("lakefs")
    servers |= conductor_workers_server.variables("conductor-workers")
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", f"examples/{example}"]
    ran = subprocess.run(
        [*command, "--perago-backend=real", "-p", "no:randomly", "-o", f"timeout={SECONDS_MAX}"],
        cwd=ROOT,
        env={**os.environ, **servers},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
