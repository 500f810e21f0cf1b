"""Where the files of a trial lie, for bodies on files and bodies on Spark."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from perago.app.authoring.task_declaration import task, task_of
from perago.app.authoring.workspace_spec import WorkspaceSpec
from perago.app.trial.trial_place import make_place
from perago.ports.spark_workspace import SparkWorkspace

FILES = {"raw/a.csv": "a\n"}


class Nothing(BaseModel):
    """Nothing to choose, nothing to say."""


def test_a_body_on_files_works_in_the_directory_itself(tmp_path: Path) -> None:
    @task(name="files", owner_email="data@example.com", workspace=WorkspaceSpec(prefix="lake"))
    def body(workspace: Path, params: Nothing) -> Nothing:
        del workspace
        return params

    place = make_place(task_of(body), tmp_path, FILES)
    assert (place.root, place.spark) == (tmp_path, None)
    assert (tmp_path / "raw/a.csv").read_text() == "a\n"


@pytest.mark.parametrize(("prefix", "inner"), [("lake", "lake"), ("a/b", "a/b"), ("/", "")])
def test_a_body_on_spark_reads_one_copy_and_writes_another(
    tmp_path: Path, prefix: str, inner: str
) -> None:
    @task(name="spark", owner_email="data@example.com", workspace=WorkspaceSpec(prefix=prefix))
    def body(workspace: SparkWorkspace, params: Nothing) -> Nothing:
        del workspace
        return params

    place = make_place(task_of(body), tmp_path, FILES)
    assert place.root == tmp_path / "output" / inner
    assert place.spark is not None
    assert place.spark.prefix == prefix
    for root in (place.spark.input_root, place.spark.output_root):
        assert root is not None
        copy = Path(root.removeprefix("file://")) / inner / "raw/a.csv"
        assert copy.read_text() == "a\n"


def test_a_read_only_body_on_spark_has_no_output(tmp_path: Path) -> None:
    spec = WorkspaceSpec(prefix="lake", read_only=True)

    @task(name="reader", owner_email="data@example.com", workspace=spec)
    def body(workspace: SparkWorkspace, params: Nothing) -> Nothing:
        del workspace
        return params

    place = make_place(task_of(body), tmp_path, FILES)
    assert place.spark is not None
    assert place.spark.output_root is None
