"""A worker beside a catalogue of data: what it is told, and that no task function sees its key."""

import json
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.integration.worker_scene import WorkerScene, process_file

from perago.domain.attempt import WorkflowStatus
from perago.testing.contract.lakefs_under_test import MAIN

pytestmark = [pytest.mark.lakefs, pytest.mark.conductor]
KEY = "key-of-the-catalogue"
BODY = """
(workspace / "b.txt").write_text("b")
"""


class Catalogue:
    """An HTTP server that keeps what is posted."""

    def __init__(self) -> None:
        events: list[dict[str, Any]] = []
        headers: set[str] = set()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                headers.add(self.headers.get("Authorization", ""))
                body = self.rfile.read(int(self.headers["Content-Length"]))
                events.append(json.loads(body))
                self.send_response(201)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base
                """Say nothing."""
                del format, args

        self.events, self.headers = events, headers
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def catalogue() -> Iterator[Catalogue]:
    opened = Catalogue()
    thread = threading.Thread(target=opened.server.serve_forever, daemon=True)
    thread.start()
    yield opened
    opened.server.shutdown()
    opened.server.server_close()
    thread.join(10)


async def test_a_catalogue_gets_the_commits_of_a_real_publication(
    scene: WorkerScene, catalogue: Catalogue
) -> None:
    module = await scene.declare(BODY, workspace=True)
    more = {
        "OPENLINEAGE_URL": catalogue.url,
        "OPENLINEAGE_API_KEY": KEY,
        "OPENLINEAGE_NAMESPACE": "team",
        "PERAGO_CODE_VERSION": "abc",
    }
    before = await scene.lakefs.branches.head(scene.repository, MAIN)
    async with scene.polling_worker([module], root=None, **more) as worker:
        (executor,) = worker.executors()
        assert "OPENLINEAGE" not in process_file(executor, "environ")
        assert KEY not in process_file(executor, "environ")
        ended = await scene.ended(await scene.start(module))
        assert ended.status is WorkflowStatus.COMPLETED, worker.screen
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0
        (row,) = ended.attempts
    after = await scene.lakefs.branches.head(scene.repository, MAIN)
    start, end = catalogue.events
    assert [each["eventType"] for each in (start, end)] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["run"]["facets"]["parent"]["run"]["runId"] == row.snapshot.workflow_id
    assert end["job"]["namespace"] == "team"
    (source,), (target,) = end["inputs"], end["outputs"]
    assert source["facets"]["version"]["datasetVersion"] == before.commit
    assert target["facets"]["version"]["datasetVersion"] == after.commit
    assert target["namespace"] == f"lakefs://{scene.repository}"
    uri = target["facets"]["dataSource"]["uri"]
    assert uri.startswith(f"lakefs://{scene.repository}/{MAIN}@{after.commit}")
    assert {"key": "perago.code_version", "value": "abc", "source": "PERAGO"} in end["run"][
        "facets"
    ]["tags"]["tags"]
    assert catalogue.headers == {f"Bearer {KEY}"}
    assert KEY not in worker.screen
