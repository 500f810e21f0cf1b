"""What workers are given in the worker benchmark: a full queue on Conductor, branches on lakeFS."""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from benchmarks.transfer_ground import Seeded
from perago_servers.http import ask

STARTERS = 4
TRIES = 5
ENDED_SECONDS_MAX = 60.0
EMPTY_MODULE = """
import os, time
from pydantic import BaseModel
from perago import task

class Params(BaseModel):
    pass

class Result(BaseModel):
    ok: bool

@task(name={name!r}, owner_email="data@example.com")
def body(params: Params) -> Result:
    with open(os.environ["BENCH_STAMPS"], "a") as stamps:
        stamps.write(f"{{time.time()}}\\n")
    return Result(ok=True)
"""
WORKSPACE_MODULE = """
import os, time
from pathlib import Path
from pydantic import BaseModel
from perago import WorkspaceSpec, task

class Params(BaseModel):
    pass

class Result(BaseModel):
    files: int

@task(name={name!r}, owner_email="data@example.com", workspace=WorkspaceSpec(prefix="ws"))
def body(workspace: Path, params: Params) -> Result:
    files = sum(1 for path in workspace.rglob("*.bin"))
    (workspace / "out.txt").write_text(str(time.time()))
    with open(os.environ["BENCH_STAMPS"], "a") as stamps:
        stamps.write(f"{{time.time()}}\\n")
    return Result(files=files)
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """When the attempts of some workflows began and ended, in seconds."""

    began: float
    first: float
    last: float


def fill(api: str, name: str, inputs: Sequence[object]) -> list[str]:
    """Register task and workflow, and start one workflow for each input."""
    task = {"name": name, "ownerEmail": "data@example.com", "retryCount": 3}
    _send(api, "/metadata/taskdefs", [task | {"responseTimeoutSeconds": 60, "timeoutSeconds": 0}])
    given: dict[str, object] = {"params": dict[str, object]()}
    if inputs[0]:
        given["workspace"] = "${workflow.input.workspace}"
    row: dict[str, object] = {
        "name": name,
        "taskReferenceName": "only",
        "type": "SIMPLE",
        "inputParameters": given,
    }
    workflow: dict[str, object] = {
        "name": name,
        "version": 1,
        "schemaVersion": 2,
        "ownerEmail": "data@example.com",
    }
    _send(api, "/metadata/workflow", {**workflow, "tasks": [row]})
    with ThreadPoolExecutor(STARTERS) as pool:
        paths = [f"/workflow/{name}"] * len(inputs)
        return list(pool.map(_send, [api] * len(inputs), paths, inputs))


def ended(api: str, workflows: Sequence[str]) -> Ended:
    """Wait for the end of all workflows, each of which has to complete."""
    rows: list[dict[str, Any]] = []
    deadline = time.monotonic() + ENDED_SECONDS_MAX
    for workflow in workflows:
        while (found := _read(api, workflow))["status"] == "RUNNING":
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        if found["status"] != "COMPLETED":
            reason = found.get("reasonForIncompletion")
            raise RuntimeError(f"workflow {workflow} is {found['status']}: {reason}")
        rows += found["tasks"]
    starts, ends = [row["startTime"] for row in rows], [row["endTime"] for row in rows]
    return Ended(min(starts) / 1000, min(ends) / 1000, max(ends) / 1000)


def branches(seeded: Seeded, count: int, stem: str) -> list[object]:
    """One branch for each attempt, and the inputs that name them."""
    server = seeded.server
    auth = (server.access_key_id, server.secret_access_key)
    inputs: list[object] = []
    for number in range(count):
        branch = f"{stem}-{number}"
        body = {"name": branch, "source": seeded.next_commit}
        url = f"{server.endpoint}/api/v1/repositories/{seeded.repository}/branches"
        ask("POST", url, body=body, basic_auth=auth)
        place = {"repository": seeded.repository, "branch": branch, "refType": "commit"}
        inputs.append({"workspace": place | {"ref": seeded.next_commit}})
    return inputs


def _send(api: str, path: str, body: object) -> str:
    """POST JSON; the answer as text."""
    status, answer = 0, b""
    for _ in range(TRIES):
        status, answer = ask("POST", api + path, body=body, timeout_seconds=60)
        if status < HTTPStatus.BAD_REQUEST:
            return answer.decode()
        time.sleep(1)  # the store of a busy server is locked now and then
    raise RuntimeError(f"POST {path} is refused with {status}: {answer.decode()}")


def _read(api: str, workflow: str) -> dict[str, Any]:
    _, answer = ask("GET", f"{api}/workflow/{workflow}", timeout_seconds=60)
    found: dict[str, Any] = json.loads(answer)
    return found
