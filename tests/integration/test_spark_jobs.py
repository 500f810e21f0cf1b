"""Jobs over commits, by their command: damage is found and named, publications are counted."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import BaseModel
from tests.contract.real_lakefs import RealLakeFS, connected
from tests.spark_scene import SparkStage

from perago.adapters.conductor.client import ConductorSettings
from perago.adapters.conductor.installation import open_conductor
from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.task_definition import TaskDefinition
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.command_line.program import program
from perago.testing.contract.lakefs_under_test import MAIN
from perago_servers import ConductorServer, LakefsServer, lakefs_server

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor, pytest.mark.spark]


class Params(BaseModel):
    """Nothing to choose."""


class Done(BaseModel):
    """Nothing to say."""


@dataclass(frozen=True)
class OwnLakeFS:
    """A lakeFS whose block store a test may damage."""

    server: LakefsServer
    harness: RealLakeFS


@pytest_asyncio.fixture
async def own(monkeypatch: pytest.MonkeyPatch, spark_session: object) -> AsyncIterator[OwnLakeFS]:
    """A server of this test alone, and the environment of the commands."""
    del spark_session  # it is the one that jobs find
    with lakefs_server() as server:
        monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", server.endpoint)
        monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", server.access_key_id)
        monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", server.secret_access_key)
        async with connected(server) as harness:
            yield OwnLakeFS(server, harness)


async def told(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Run a command beside the loop of the test and read its JSON."""
    out = io.StringIO()
    code = await asyncio.to_thread(run_program, [*arguments, "--json"], out)
    return code, json.loads(out.getvalue())


def run_program(arguments: list[str], out: io.StringIO) -> int:
    """Run the command line as a shell does; its exit code."""
    with redirect_stdout(out):
        answer: object = program().main(arguments, standalone_mode=False)
    return answer if isinstance(answer, int) else 0


async def test_damage_is_found_and_named(own: OwnLakeFS, tmp_path: Path) -> None:
    repository = await own.harness.create_repository()
    files = {f"lake/part-{number:03}": f"row {number}".encode() * 9 for number in range(40)}
    commit = await own.harness.commit_files(repository, MAIN, {**files, "other/x": b"x"})
    report = str(tmp_path / "report")

    code, sound = await told("verify", f"{repository}@main", "--prefix", "lake", "--report", report)
    damage(own.server, files["lake/part-007"])
    damaged_code, damaged = await told("verify", f"{repository}@{commit}", "--report", report)

    assert (code, sound["objects"], sound["damaged"]) == (0, 40, 0)
    assert sound["bytes"] == sum(map(len, files.values()))
    assert (damaged_code, damaged["objects"], damaged["damaged"]) == (1, 41, 1)
    assert damaged["shown"][0].startswith("lake/part-007: damaged: ")
    assert "expected 45 bytes with MD5" in damaged["shown"][0]
    assert len(list((tmp_path / "report").glob("*.parquet"))) >= 1


def damage(server: LakefsServer, content: bytes) -> None:
    """Flip the bytes of one stored object behind the server's back."""
    assert server.data is not None
    for path in (server.data / "blocks").rglob("*"):
        if path.is_file() and path.read_bytes() == content:
            path.write_bytes(content[::-1])
            return
    raise AssertionError("no block has these bytes")


async def test_publications_are_counted_by_task_and_day(
    own: OwnLakeFS,
    conductor_server: ConductorServer,
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    def declared(name: str) -> TaskDefinition:
        @task(name=name, owner_email="data@example.com", workspace=WorkspaceSpec(prefix="data"))
        def write(workspace: Path, params: Params) -> Done:
            del params
            (workspace / f"{name}.txt").write_text(name)
            return Done()

        return task_of(write)

    conductor = open_conductor(ConductorSettings(url=conductor_server.api_url))
    stage = SparkStage(own.harness, conductor, tmp_path, None)
    names = [unique_name("first"), unique_name("second")]
    scene = await stage.play([declared(name) for name in names], {"data/a": b"a"})
    await scene.run_all()
    await conductor.close()

    code, counted = await told("report", "publications", f"{scene.repository}@main")

    assert code == 0
    rows = {row["task"]: row for row in counted["rows"]}
    assert sorted(rows) == sorted(names)
    for row in rows.values():
        assert (row["publications"], row["retries"], row["adoptions"]) == (1, 0, 0)


async def test_jars_are_listed_without_the_network_once_they_are_there(
    spark_session: object,
) -> None:
    del spark_session  # its fixture has fetched them
    code, listed = await told("spark", "jars")
    assert code == 0
    assert any("hadoop-aws" in path for path in listed["jars"])
    assert any("perago-commit-protocol" in path for path in listed["jars"])
