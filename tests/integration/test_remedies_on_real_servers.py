"""The commands of other programs in remedies, run by those programs against real servers.

In memory the scenes of tests/unit/remedies say what `lakectl` and `curl` print. Here the real ones
say it, so that no remedy names a verb or an option that they do not have.
"""

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.contract.real_conductor import connected as connected_to_conductor
from tests.contract.real_lakefs import connected
from tests.remedies import commands_of
from tests.unit.remedies.shell import filled

from perago.domain.attempt import WorkflowStatus
from perago.domain.error_codes import error_codes
from perago.domain.lakefs import BranchName, TagName
from perago.domain.outcome import RefusedByHook
from perago.testing.contract.conductor_under_test import ConductorScene
from perago.testing.contract.lakefs_under_test import MAIN, REFUSING_FILE, Scene
from perago_servers import ConductorServer, LakefsServer
from perago_servers.go_programs import lakefs_programs

# What each prints in the repository of the test. A name in braces is that of the scene.
LAKECTL = {
    "lakectl repo list": "{REPO}",
    "lakectl branch list lakefs://REPO": "main",
    "lakectl branch show lakefs://REPO/BRANCH": "{REF}",
    "lakectl tag list lakefs://REPO": "perago-base-{KEY}",
    "lakectl tag show lakefs://REPO/perago-base-KEY": "{REF}",
    "lakectl log lakefs://REPO/BRANCH": "{REF}",
    "lakectl log lakefs://REPO/RUN_BRANCH": "{REF}",
    "lakectl fs ls --recursive lakefs://REPO/REF/": "kept",
    "lakectl fs ls lakefs://REPO/COMMIT/": "added",
    "lakectl fs ls lakefs://REPO/BRANCH/_lakefs_actions/": "other.yaml",
    "lakectl actions runs list lakefs://REPO": "failed",
    "lakectl diff --two-way lakefs://REPO/STAGED lakefs://REPO/PUBLISHED": "added",
    "lakectl diff lakefs://REPO/BRANCH": "draft",
    "lakectl commit lakefs://REPO/BRANCH -m MESSAGE": "kept-by-hand",
    "lakectl branch reset lakefs://REPO/BRANCH": "",
    "lakectl branch delete lakefs://REPO/RUN_BRANCH": "",
    # The last ones, because a protected branch refuses the commit and the reset above.
    "lakectl branch-protect add lakefs://REPO BRANCH": "",
    "lakectl branch-protect list lakefs://REPO": "main",
    "lakectl branch-protect delete lakefs://REPO 'RULE'": "",
}
ASKS_FIRST = ("lakectl branch reset", "lakectl branch delete")
CURL = {
    "curl -fsS $PERAGO_CONDUCTOR/workflow/WORKFLOW": '"inputData"',
    "curl -fsS -X DELETE $PERAGO_CONDUCTOR/workflow/WORKFLOW": "",
}


def commands_with(program: str) -> set[str]:
    """Every command of a program in any remedy."""
    found = {each for row in error_codes().values() for each in commands_of(row.remedy)}
    return {each for each in found if each.startswith(program)}


def test_every_command_of_these_programs_is_run_here() -> None:
    assert commands_with("lakectl ") == set(LAKECTL)
    # Whether an address answers, any curl can tell.
    assert commands_with("curl ") - {"curl -sS URL"} == set(CURL)


async def ran(command: str, variables: Mapping[str, str], path: str = "") -> str:
    """What a command prints that ends well."""
    done = await asyncio.to_thread(
        subprocess.run,
        ["/bin/sh", "-c", command],
        env={**os.environ, **variables, "PATH": f"{path}:{os.environ['PATH']}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.lakefs
async def test_lakectl_knows_what_remedies_ask_of_it(
    lakefs_server: LakefsServer, tmp_path: Path
) -> None:
    variables = {
        "HOME": str(tmp_path),
        "LAKECTL_SERVER_ENDPOINT_URL": lakefs_server.endpoint,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": lakefs_server.access_key_id,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": lakefs_server.secret_access_key,
    }
    async with connected(lakefs_server) as harness:
        scene = await Scene.build(harness, {"_lakefs_actions/other.yaml": REFUSING_FILE})
        assert isinstance(await scene.merge(), RefusedByHook)
        ref = scene.input_ref
        key, run_branch = "of-a-run", BranchName("perago-run-of-a-run")
        await harness.branches.create(scene.repository, run_branch, ref)
        await harness.tags.create(scene.repository, TagName(f"perago-base-{key}"), ref)
        await harness.write(scene.repository, MAIN, "draft", b"draft")
        names = {
            "REPO": scene.repository,
            "BRANCH": "main",
            "MESSAGE": "kept-by-hand",
            "REF": ref,
            "COMMIT": scene.staged,
            "STAGED": scene.staged,
            "PUBLISHED": ref,
            "RUN_BRANCH": run_branch,
            "KEY": key,
            "RULE": "main",
        }
        for command, expected in LAKECTL.items():
            typed = filled(command, names)
            typed += " --yes" if typed.startswith(ASKS_FIRST) else ""
            # lakectl shows a hundred and says how to go on; other tests make more on this server.
            typed += " --amount 1000" if command == "lakectl repo list" else ""
            printed = await ran(typed, variables, str(lakefs_programs()))
            assert expected.format(**names) in printed, (command, printed)


@pytest.mark.conductor
async def test_curl_reads_and_ends_a_workflow(conductor_server: ConductorServer) -> None:
    variables = {"PERAGO_CONDUCTOR": conductor_server.api_url}
    async with connected_to_conductor(conductor_server) as harness:
        workflow, _ = await ConductorScene(harness).start_one_task()
        for command, expected in CURL.items():
            assert expected in await ran(filled(command, {"WORKFLOW": workflow}), variables)
        ended = await harness.workflows.read(workflow)
        assert ended is not None
        assert ended.status is WorkflowStatus.TERMINATED
