"""What a body finds of the keys of its worker once it runs: its message and its workspace are here.

On real servers, because only an attempt that was downloaded has everything a body is given.
"""

import shutil
from dataclasses import replace

import pytest
from tests.integration import key_spy
from tests.integration.worker_scene import WorkerScene

from perago.domain.attempt import WorkflowStatus
from perago.testing.contract.lakefs_under_test import MAIN

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
# The first look is at the memory: the message that began the body is there, whole.
BODY = """
import key_spy
found = [
    key_spy.keys_in(lambda: key_spy.memory_of("self")),
    key_spy.keys_in(lambda: repr(dict(os.environ)).encode()),
    key_spy.keys_in(lambda: key_spy.files_below(str(workspace), os.environ["PERAGO_LOG_ROOT"])),
]
(workspace / "found.txt").write_text(repr(found))
"""


async def test_a_running_body_has_no_key_in_its_memory_its_environment_or_its_files(
    scene: WorkerScene,
) -> None:
    shutil.copy(key_spy.__file__, scene.folder / "key_spy.py")
    lakefs, _ = scene.servers
    backwards = lakefs.secret_access_key[::-1]
    scene = replace(scene, variables={key_spy.BACKWARDS: backwards})
    module = await scene.declare(BODY, workspace=True)
    async with scene.polling_worker([module]) as worker:
        ended = await scene.ended(await scene.start(module))
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen
    found = await scene.lakefs.objects.read(scene.repository, MAIN, "data/found.txt")
    assert found == b"[[], [], []]"
