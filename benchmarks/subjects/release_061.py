"""The public release 0.6.1: its own download, or its own staging of a directory."""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))


from benchmarks.subjects.assignment import Assignment, files_below, within


def main() -> None:
    """Do one step with the installed release."""
    # Only in the release's own environment, where these names mean the release.
    client_module: Any = import_module("lakefs.client")
    perago: Any = import_module("perago")
    runtime_module: Any = import_module("perago.lakefs_runtime")
    told = Assignment()
    client = client_module.Client(
        host=told.endpoint, username=told.access_key_id, password=told.secret_access_key
    )
    runtime = runtime_module.LakeFSWorkspaceRuntime(client=client)
    spec = perago.WorkspaceSpec(prefix="/ws")
    {"cold": _download, "stage": _stage, "attempts": _attempts}[sys.argv[1]](told, runtime, spec)


def _download(told: Assignment, runtime: Any, spec: Any) -> None:  # noqa: ANN401
    place = _place(told.repository, "main", told.commit)
    within(
        told,
        "cold",
        lambda: runtime.download_workspace(place, spec, told.directory),
        lambda: files_below(told.directory),
    )


def _stage(told: Assignment, runtime: Any, spec: Any) -> None:  # noqa: ANN401
    lakefs: Any = import_module("lakefs.object")
    place = _place(told.repository, "main", told.commit)
    uploaded: list[int] = []
    upload = lakefs.WriteableObject.upload

    def counted(self: object, *arguments: object, **options: object) -> Any:  # noqa: ANN401
        answer = upload(self, *arguments, **options)
        uploaded.append(1)
        return answer

    lakefs.WriteableObject.upload = counted
    attempt = _attempt(told.branch)
    within(
        told,
        "stage",
        lambda: runtime.stage_workspace(told.directory, place, spec, attempt),
        lambda: len(uploaded),
    )


def _attempts(told: Assignment, runtime: Any, spec: Any) -> None:  # noqa: ANN401
    """One attempt in each repository: download, change one file, stage, publish."""
    done: list[str] = []

    def work() -> None:
        for repository, commit in json.loads(os.environ["BENCH_INPUTS"]).items():
            place = _place(repository, told.branch, commit)
            attempt = _attempt(f"{told.branch}-{len(done)}")
            directory = told.directory / repository
            directory.mkdir()
            runtime.download_workspace(place, spec, directory)
            changed = min(directory.rglob("*.bin"))
            changed.write_bytes(os.urandom(changed.stat().st_size))
            staged = runtime.stage_workspace(directory, place, spec, attempt)
            runtime.publish_workspace(staged, place, spec, attempt)
            done.append(repository)

    within(told, "attempts", work, lambda: len(done))


def _place(repository: str, branch: str, commit: str) -> Any:  # noqa: ANN401
    models: Any = import_module("perago.models")
    return models.WorkspaceInput(repository=repository, branch=branch, ref=commit, refType="commit")


def _attempt(workflow: str) -> Any:  # noqa: ANN401
    conductor: Any = import_module("perago.conductor_runtime")
    models: Any = import_module("perago")
    polled = conductor.ConductorTaskAttempt(
        workflow, "t", 0, "task", "bench", 1, 0, "IN_PROGRESS", {}
    )
    return models.TaskExecutionContext(polled, "e")


main()
