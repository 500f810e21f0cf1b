"""The first workflow as a new user types it, to the commit in the log of the branch.

Servers, worker and all are started by the page's own commands; nothing of the test's is used.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.documented_commands import check_line, page_lines, shell_lines
from tests.integration.document_blocks import Session, blocks_of

from perago_servers import ConductorServer, LakefsServer
from perago_servers.cache import cache_root
from perago_servers.versions import CONDUCTOR, LAKEFS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/first-workflow.md"
QUICKSTART = ROOT / "examples/quickstart"


@pytest.fixture
def session(tmp_path: Path) -> Generator[Session]:
    """A reader in an empty directory, with the servers that were fetched before."""
    (reads_settings,) = page_lines("README.md", ". ./.env")
    proxies = {name: value for name, value in os.environ.items() if name.startswith("JAVA_")}
    session = Session(
        tmp_path,
        environment={"XDG_CACHE_HOME": str(cache_root().parents[1]), **proxies},
        first=f"test -f .env && {reads_settings}; ",
    )
    try:
        yield session
    finally:
        session.close()


@pytest.mark.lakefs
@pytest.mark.conductor
def test_the_page_leads_to_a_commit_on_a_real_branch(session: Session) -> None:
    blocks = list(blocks_of(PAGE))
    assert [block for block in blocks if "lakectl log" in block.text]
    (up,) = page_lines("README.md", "perago servers up")
    assert f"$ {up}\n" in "".join(block.text for block in blocks if "until" in block.options)
    for block in blocks:
        session.run(block)


@pytest.mark.lakefs
@pytest.mark.conductor
def test_what_compose_starts_publishes_a_commit_each_time(
    tmp_path: Path, lakefs_server: LakefsServer, conductor_server: ConductorServer
) -> None:
    """Twice: `docker compose up` again finds the repository, the fence and the TaskDef."""
    scripts = Path(sys.executable).parent
    environment = {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PERAGO_LAKEFS": lakefs_server.endpoint,
        "PERAGO_CONDUCTOR": conductor_server.api_url,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": lakefs_server.access_key_id,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": lakefs_server.secret_access_key,
    }
    # As `restart: on-failure` does: the first start finds no TaskDef.
    restarted = "until perago start clean_events -j 2; do sleep 0.2; done"
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(
            ["sh", "-c", restarted],  # noqa: S607 - the shell
            cwd=QUICKSTART,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        for _ in range(2):
            run = subprocess.run(
                [sys.executable, "first_run.py"],
                cwd=QUICKSTART,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert run.returncode == 0, run.stdout + run.stderr
            assert re.search(r"workflow \S+: COMPLETED", run.stdout)
            assert "perago confirm: quickstart.clean (clean) of workflow" in run.stdout
    finally:
        os.killpg(worker.pid, signal.SIGTERM)
        worker.wait(60)


@pytest.mark.parametrize("line", shell_lines(PAGE))
def test_what_is_not_typed_by_the_test_is_there(line: str) -> None:
    check_line(line)


def test_the_page_names_the_versions_that_are_fetched() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"lakeFS {LAKEFS}" in text
    assert f"Conductor {CONDUCTOR}" in text
