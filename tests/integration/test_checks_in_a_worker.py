"""Checks of a staged commit in a real worker: in an executor, without keys, before the publication.

On real servers, because what is staged, refused and kept has to be so in lakeFS.
"""

import shutil
from dataclasses import replace

import pytest
from tests.integration import key_spy
from tests.integration.worker_scene import WorkerScene

from perago.domain.attempt import AttemptStatus, WorkflowStatus
from perago.testing.contract.lakefs_under_test import MAIN

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
CHECK = """
import os
import key_spy
from perago import StagedView, TaskTerminalError, current_attempt

def look(view: StagedView) -> None:
    found = [
        key_spy.keys_in(lambda: key_spy.memory_of("self")),
        key_spy.keys_in(lambda: repr(dict(os.environ)).encode()),
    ]
    if found != [[], []]:
        raise TaskTerminalError(f"keys: {found}")
    with view.open("new.txt") as file:
        said = file.read().decode()
    if current_attempt().retry_count == 0:
        raise ValueError(f"process {os.getpid()} read {said}")
"""
BODY = """
(workspace / "new.txt").write_text("new")
"""


async def test_a_check_refuses_in_the_executor_and_the_retry_is_published(
    scene: WorkerScene,
) -> None:
    shutil.copy(key_spy.__file__, scene.folder / "key_spy.py")
    backwards = scene.servers[0].secret_access_key[::-1]
    scene = replace(scene, variables={key_spy.BACKWARDS: backwards})
    module = await scene.declare(BODY, workspace=True, before=CHECK, checks="[look]")
    async with scene.polling_worker([module]) as worker:
        executors = worker.executors()
        ended = await scene.ended(await scene.start(module))
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen
        refused, passed = worker.events("attempt checked")

    first, _ = ended.attempts
    assert first.snapshot.status is AttemptStatus.FAILED
    said = f"staged commit {refused['commit']}: check look failed: ValueError: process "
    pid, end = str(first.reason).removeprefix(said).split(" ", 1)
    assert end == "read new [CheckFailedError PRG-G003]"
    assert int(pid) in executors
    assert (refused["outcome"], passed["outcome"]) == ("BodyRaised", "BodyReturned")
    # What was refused is still there, and only what passed is on the target.
    kept = await scene.lakefs.branches.head(scene.repository, refused["branch"])
    assert kept.commit == refused["commit"]
    history = await scene.lakefs.commits.first_parents(
        scene.repository, MAIN, scene.start_commit, commits_max=10
    )
    assert len(history.above) == 1
    assert await scene.lakefs.objects.read(scene.repository, MAIN, "data/new.txt") == b"new"
