"""`perago fence`, `reset-task`, `head`, `submit` and `diff` as an operator runs them, for real."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import pytest
from tests.contract.real_lakefs import RealLakeFS
from tests.integration.attempt_scene import FILES, AttemptScene

from perago.domain.fence import FENCE_FILE
from perago.domain.paths import FENCE_PATH
from perago.domain.policy import PolicySetting
from perago.domain.run import RunKey, base_tag, run_branch
from perago.ports.installations import ConductorInstallation
from perago.ports.lakefs import CommitRequest
from perago.ports.objects import ObjectUpload
from perago.testing.contract.lakefs_under_test import MAIN
from perago.testing.faults import crash
from perago_servers import ConductorServer, LakefsServer

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]

DIFF_OBJECTS, DIFF_SECONDS_MAX = 10_000, 2.0
UNFENCED = {path: content for path, content in FILES.items() if path != FENCE_PATH}


@dataclass
class Operator:
    """Somebody at a terminal with the servers' addresses in the environment."""

    directory: Path
    environment: dict[str, str]

    async def run(self, *words: str) -> tuple[int, dict[str, Any], str]:
        """Run one command; its exit code, its JSON document, and what it said besides."""
        command = [sys.executable, "-m", "perago", *words, "--json"]
        environment = {**os.environ, **self.environment}
        process = await create_subprocess_exec(
            *command, cwd=self.directory, env=environment, stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, json.loads(out or "{}"), err.decode()


@pytest.fixture
def operator(
    tmp_path: Path, lakefs_server: LakefsServer, conductor_server: ConductorServer
) -> Operator:
    return Operator(
        tmp_path,
        {
            "PERAGO_WORKSPACE_ROOT": str(tmp_path / "workspaces"),
            "PERAGO_LAKEFS": lakefs_server.endpoint,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": lakefs_server.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": lakefs_server.secret_access_key,
            "PERAGO_CONDUCTOR": conductor_server.api_url,
        },
    )


async def test_a_fence_is_installed_verified_and_removed_on_a_protected_branch(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path, operator: Operator
) -> None:
    scene = AttemptScene(lakefs, conductor, tmp_path, PolicySetting.SETTLED)
    await scene.create(UNFENCED)
    await lakefs.protect(scene.repository, MAIN)

    code, document, _ = await operator.run("fence", "verify", scene.repository, MAIN)
    assert (code, document["state"]) == (4, "absent")

    code, document, said = await operator.run("fence", "install", scene.repository, MAIN)
    assert (code, document["commit"]) == (0, await scene.head())
    assert "older commits" in said
    assert (await scene.files())[FENCE_PATH] == FENCE_FILE

    code, document, _ = await operator.run("fence", "install", scene.repository, MAIN)
    assert (code, document["change"]) == (0, "unchanged")

    code, document, _ = await operator.run("fence", "verify", scene.repository, MAIN)
    assert (code, document["state"], document["protected"]) == (0, "trusted", True)

    code, _, _ = await operator.run("fence", "remove", scene.repository, MAIN)
    assert code == 0
    assert set(await scene.files()) == set(UNFENCED)
    assert await scene.branches() == {MAIN}


async def test_an_altered_fence_is_reported_and_replaced(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path, operator: Operator
) -> None:
    scene = AttemptScene(lakefs, conductor, tmp_path, PolicySetting.SETTLED)
    altered = FENCE_FILE.replace(b"if expected ~= nil then", b"if false then")
    await scene.create({**FILES, FENCE_PATH: altered})

    code, document, _ = await operator.run("fence", "verify", scene.repository, MAIN)
    assert (code, document["state"]) == (4, "altered")

    code, _, _ = await operator.run("fence", "install", scene.repository, MAIN)
    assert code == 0
    assert (await scene.files())[FENCE_PATH] == FENCE_FILE


async def test_a_repository_that_is_not_there_has_an_exit_code_of_its_own(
    operator: Operator,
) -> None:
    code, _, said = await operator.run("fence", "verify", "nowhere", MAIN)

    assert code == 6
    assert "nowhere" in said


async def test_a_task_is_reset_once_its_workflow_has_ended(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path, operator: Operator
) -> None:
    scene = AttemptScene(lakefs, conductor, tmp_path, PolicySetting.SETTLED)
    await scene.create()
    await scene.start()
    assert await scene.attempt(crash(after="decide")) is None
    words = ("reset-task", scene.workflow, scene.task.name)

    code, _, said = await operator.run("forget", *words[1:])  # the old name of the command
    assert code == 1, said
    assert "RUNNING" in said
    assert (await lakefs.tags.list_page(scene.repository, "perago-settled-")).items

    await conductor.workflows.terminate(scene.workflow, "the operator wants it computed anew")
    code, document, said = await operator.run(*words)
    assert code == 0, said
    assert len(document["decisions"]) == 1
    assert (await lakefs.tags.list_page(scene.repository, "perago-settled-")).items == ()
    assert await scene.branches() == {MAIN}
    assert await scene.head() == scene.input

    await conductor.workflows.retry(scene.workflow)
    report = await scene.attempt()
    assert report is not None
    assert report.error is None, report.error
    assert scene.runs == 2, "the retry computes again"
    code, document, said = await operator.run(*words)
    assert code == 0, said
    assert document["published"] == [await scene.head()]


async def test_a_workflow_is_written_registered_submitted_and_waited_for(
    lakefs: RealLakeFS, conductor: ConductorInstallation, tmp_path: Path, operator: Operator
) -> None:
    scene = AttemptScene(lakefs, conductor, tmp_path, PolicySetting.SETTLED)
    await scene.create()
    name = lakefs.unique_name("ends")
    ends = {"terminationStatus": "COMPLETED", "workflowOutput": "${workflow.input}"}
    step: dict[str, object] = {"name": "end", "taskReferenceName": "end", "type": "TERMINATE"}
    flow: dict[str, object] = {"name": name, "version": 2, "schemaVersion": 2}
    flow |= {"ownerEmail": "data@example.com", "tasks": [{**step, "inputParameters": ends}]}
    await conductor.workflows.put_definition(flow)

    code, document, _ = await operator.run("head", scene.repository, MAIN)
    assert (code, document["commit"]) == (0, scene.input)

    target = ("--repo", scene.repository, "--branch", MAIN)
    code, document, said = await operator.run(
        "submit", name, *target, "--params", "a.b=1", "--wait"
    )
    assert (code, document["status"], document["version"]) == (0, "COMPLETED", 2)
    assert document["output"]["workspace"]["ref"] == scene.input
    assert document["output"]["params"] == {"a": {"b": "1"}}
    assert "end COMPLETED" in said

    code, document, _ = await operator.run("submit", "no_such_workflow", *target)
    assert (code, document["error"]["code"]) == (6, "PRG-L012")
    code, document, _ = await operator.run(
        "submit", name, "--repo", scene.repository, "--branch", "x"
    )
    assert (code, document["error"]["code"]) == (6, "PRG-L002")


@pytest.mark.soak
async def test_what_a_run_would_change_is_shown_in_two_seconds(
    lakefs: RealLakeFS, operator: Operator, tmp_path: Path
) -> None:
    """10,000 objects: 0.6 to 0.9 s on two idle cores, of which 0.5 s are the command's own.

    Its processor time is asserted, because tests share the machine.
    """
    repository = await lakefs.create_repository()
    base = await lakefs.commit_files(repository, MAIN, {"old": b"old"})
    key = RunKey(f"w-{'0' * 32}")
    await lakefs.tags.create(repository, base_tag(key), base)
    await lakefs.branches.create(repository, run_branch(key), base, hidden=True)
    source = tmp_path / "object"
    source.write_bytes(b"0123456789")
    turns = asyncio.Semaphore(16)

    async def upload(number: int) -> None:
        async with turns:
            made = ObjectUpload(f"made/{number:05}", source)
            await lakefs.objects.upload(repository, run_branch(key), made)

    await asyncio.gather(*map(upload, range(DIFF_OBJECTS)))
    await lakefs.commits.commit(CommitRequest(repository, run_branch(key), "made", {}))
    before = getrusage(RUSAGE_CHILDREN)
    code, document, _ = await operator.run("diff", key)
    after = getrusage(RUSAGE_CHILDREN)
    assert (code, len(document["changes"])) == (0, DIFF_OBJECTS)
    assert document["total"]["bytes"] == 10 * DIFF_OBJECTS
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < DIFF_SECONDS_MAX
