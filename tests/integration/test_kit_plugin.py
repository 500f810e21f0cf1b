"""The plugin in a project of a stranger: fixtures on request, nothing else, whatever else runs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LOOP_SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")
TESTS = """
import pytest
from pathlib import Path
from pydantic import BaseModel
from perago import WorkspaceSpec, task
from perago.testing import crash


class Nothing(BaseModel):
    pass


@task(name="keep", owner_email="you@example.com", workspace=WorkspaceSpec(prefix="x"))
def keep(workspace: Path, params: Nothing) -> Nothing:
    (workspace / "a").write_text("a")
    return params


@pytest.mark.asyncio
@pytest.mark.parametrize("number", range(4))
@pytest.mark.perago(policy="lineage", faults=[crash(after="merge")])
async def test_env(perago_env, number) -> None:
    run = await perago_env.run(keep, await perago_env.repository())
    await perago_env.assert_completed(run)
    assert perago_env.settings.publication == "lineage"


@pytest.mark.asyncio
async def test_parts(perago_lakefs, perago_conductor, perago_clock) -> None:
    assert await perago_conductor.queue.check()
    perago_clock.advance(10)
    assert perago_clock.monotonic() == 10
    with pytest.raises(Exception, match="nowhere"):
        await perago_lakefs.repositories.read("nowhere")


def test_plain() -> None:
    import sys
    assert TAKES_NO_FIXTURE
"""
PLAIN = "def test_nothing(): import sys; assert 'perago.testing.environment' not in sys.modules\n"


def _pytest(project: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Pytest in a project, with what is installed and nothing of this repository."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PERAGO_TEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *LOOP_SCOPE, *options],
        cwd=project,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "options",
    [("-p", "no:randomly"), (), ("-n", "2"), ("-o", "asyncio_mode=auto")],
    ids=["plain", "random order", "xdist", "asyncio auto"],
)
def test_the_fixtures_work_beside_other_plugins(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(TESTS.replace("TAKES_NO_FIXTURE", "True"))
    ran = _pytest(tmp_path, *options)
    assert "6 passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_run_that_asks_for_nothing_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PLAIN)
    ran = _pytest(tmp_path)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_real_servers_without_an_address_are_an_error_and_no_skip(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS.replace("TAKES_NO_FIXTURE", "True"))
    ran = _pytest(tmp_path, "--perago-backend=real", "-k", "test_env")
    assert ran.returncode == 1
    assert "--perago-backend=real needs PERAGO_TEST_LAKEFS_ENDPOINT" in ran.stdout


@pytest.mark.spark
def test_a_spark_session_comes_with_its_fixture(perago_spark: Any) -> None:  # noqa: ANN401
    assert perago_spark.range(3).count() == 3
