"""Stage and publish one changed file of a workspace with perago 0.6.1, in its own environment.

Run by benchmarks/publish.py with that environment's Python; prints the seconds as JSON.
"""

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

# The names of 0.6.1; this file never runs in our own environment.
_peer: Any = import_module("perago")
_conductor: Any = import_module("perago.conductor_runtime")
_lakefs: Any = import_module("perago.lakefs_runtime")


def main() -> None:
    """Read one request from the command line, publish, print."""
    request = json.loads(sys.argv[1])
    runtime = _lakefs.LakeFSWorkspaceRuntime.from_config(_peer.LakeFSConfig(**request["lakefs"]))
    place = _peer.WorkspaceInput(**request["workspace"])
    spec = _peer.WorkspaceSpec(prefix="data")
    polled = _conductor.ConductorTaskAttempt("w", "t", 0, "task", "ref", 1, 0, "IN_PROGRESS", {})
    attempt = _peer.TaskExecutionContext(polled, f"bench{request['number']}")
    folder = Path(request["folder"])
    runtime.download_workspace(place, spec, folder)
    (folder / "file-0.txt").write_text(f"changed by the peer {request['number']}")
    started = time.perf_counter()
    staged = runtime.stage_workspace(folder, place, spec, attempt)
    runtime.publish_workspace(staged, place, spec, attempt)
    print(json.dumps({"seconds": time.perf_counter() - started}))


main()
