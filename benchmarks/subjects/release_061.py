"""The public release 0.6.1: its own download, or its own staging of a directory."""

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))


from benchmarks.subjects.assignment import Assignment, files_below, within


def main() -> None:
    """Do one step with the installed release."""
    # Only in the release's own environment, where these names mean the release.
    lakefs: Any = import_module("lakefs.object")
    client_module: Any = import_module("lakefs.client")
    perago: Any = import_module("perago")
    runtime_module: Any = import_module("perago.lakefs_runtime")
    models: Any = import_module("perago.models")
    told = Assignment()
    client = client_module.Client(
        host=told.endpoint, username=told.access_key_id, password=told.secret_access_key
    )
    runtime = runtime_module.LakeFSWorkspaceRuntime(client=client)
    place = models.WorkspaceInput(
        repository=told.repository, branch="main", ref=told.commit, refType="commit"
    )
    spec = perago.WorkspaceSpec(prefix="/ws")
    if sys.argv[1] == "cold":
        within(
            told,
            "cold",
            lambda: runtime.download_workspace(place, spec, told.directory),
            lambda: files_below(told.directory),
        )
    uploaded: list[int] = []
    upload = lakefs.WriteableObject.upload

    def counted(self: object, *arguments: object, **options: object) -> Any:  # noqa: ANN401
        answer = upload(self, *arguments, **options)
        uploaded.append(1)
        return answer

    lakefs.WriteableObject.upload = counted
    attempt = SimpleNamespace(
        workflow_instance_id=told.branch,
        reference_task_name="bench",
        seq=1,
        iteration=0,
        task_id="t",
        retry_count=0,
        execution_id="e",
    )
    within(
        told,
        "stage",
        lambda: runtime.stage_workspace(told.directory, place, spec, attempt),
        lambda: len(uploaded),
    )


main()
