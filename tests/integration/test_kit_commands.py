"""`perago dev` as a process with its page, and `perago run` on a commit of a real lakeFS."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from tests.contract.real_lakefs import connected

from perago.testing import sequence
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import LakefsServer

PERAGO = [sys.executable, "-m", "perago"]
TASK = """
from pathlib import Path
from pydantic import BaseModel
from perago import WorkspaceSpec, task


class Params(BaseModel):
    pass


class Done(BaseModel):
    files: int


@task(name="keep", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="data"))
def keep(workspace: Path, params: Params) -> Done:
    print("MARK")
    (workspace / "new.txt").write_text("new")
    return Done(files=len([p for p in workspace.iterdir() if not p.name.startswith(".")]))
"""
LOOKS_MAX = 100


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "kept.py").write_text(TASK)
    task: dict[str, object] = {"name": "keep", "taskReferenceName": "keep", "type": "SIMPLE"}
    task["inputParameters"] = {"workspace": "${workflow.input.workspace}", "params": {}}
    definition = {**sequence("dev"), "tasks": [task]}
    (tmp_path / "flow.json").write_text(json.dumps(definition))
    return tmp_path


@pytest.fixture
def page(project: Path) -> Iterator[str]:
    """The address that a running `perago dev --reload` prints."""
    command = [*PERAGO, "dev", "flow.json", "kept", "--reload", "--compare"]
    environment = {**os.environ, "PYTHONPATH": str(project)}
    with subprocess.Popen(
        command, cwd=project, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline().decode()
            found = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert found, line
            yield found[0]
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def _get(url: str, host: str | None = None, method: str = "GET") -> tuple[int, str]:
    headers = {} if host is None else {"Host": host}
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, ""


def test_the_page_is_served_read_only_to_loopback_and_follows_changes(
    page: str, project: Path
) -> None:
    assert _get(page)[0] == HTTPStatus.OK
    document = _page_with(page, '"policy": "head-parent"')
    assert '"policy": "settled"' in document
    assert _get(page, host="evil.example")[0] == HTTPStatus.MISDIRECTED_REQUEST
    assert _get(page, method="POST")[0] == HTTPStatus.NOT_IMPLEMENTED
    shown = json.loads(document)["page"]
    assert [scene["policy"] for scene in shown["scenes"]] == ["settled", "head-parent"]
    _page_with(page, "MARK")
    (project / "kept.py").write_text(TASK.replace("MARK", "ANOTHER"))
    _page_with(page, "ANOTHER")


def _page_with(page: str, text: str) -> str:
    """The page once it shows a text; runs go on while it is served."""
    document = ""
    for _ in range(LOOKS_MAX):
        document = _get(f"{page}page.json")[1]
        if text in document:
            return document
        time.sleep(0.2)  # noqa: TID251 - another process works
    raise AssertionError(f"{text!r} does not appear:\n{document}")


@pytest.mark.lakefs
async def test_run_reads_a_commit_of_a_real_lakefs_and_writes_nothing(
    lakefs_server: LakefsServer, project: Path
) -> None:
    async with connected(lakefs_server) as lakefs:
        repository = await lakefs.create_repository()
        head = await lakefs.commit_files(repository, MAIN, {"data/a.txt": b"a", "b.txt": b"b"})
        environment = {
            **os.environ,
            "PYTHONPATH": str(project),
            "PERAGO_LAKEFS": lakefs_server.endpoint,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": lakefs_server.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": lakefs_server.secret_access_key,
        }
        ran = subprocess.run(  # noqa: ASYNC221 - nothing else runs in this loop
            [*PERAGO, "run", "kept", "--repo", f"lakefs://{repository}/main", "--json"],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        document = json.loads(ran.stdout)
        assert document["changes"] == {"added": ["new.txt"], "changed": [], "removed": []}
        assert document["result"] == {"files": 2}
        assert (await lakefs.branches.head(repository, MAIN)).commit == head
