"""lakefs-spec: an fsspec file system, its recursive get."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from importlib import import_module
from typing import Any

from benchmarks.subjects.assignment import Assignment, files_below, within


def main() -> None:
    """Download the workspace."""
    lakefs_spec: Any = import_module("lakefs_spec")  # only in its own environment

    told = Assignment()
    files = lakefs_spec.LakeFSFileSystem(
        host=told.endpoint, username=told.access_key_id, password=told.secret_access_key
    )
    source = f"lakefs://{told.repository}/{told.commit}/ws/"
    within(
        told,
        "cold",
        lambda: files.get(source, str(told.directory), recursive=True),
        lambda: files_below(told.directory),
    )


main()
