"""Who moves workspaces follows from the setting and from what executors can reach."""

import pickle
from functools import partial
from pathlib import Path

import pytest

from perago.adapters.spark import publication_report, workspace_pipeline
from perago.adapters.spark.session import SparkConfiguration
from perago.adapters.spark.workspace_pipeline import SizedPipeline, SparkWorkspacePipeline
from perago.adapters.workspace.pipeline import LocalWorkspacePipeline
from perago.app.connections import Connections, LakeFSConnection, connections_of
from perago.app.container import Container, open_lakefs
from perago.app.pipeline_parts import cache_directory, open_part_work, publications, verify
from perago.app.settings.settings import load_settings
from perago.domain.errors import RuntimeConfigError
from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports.workspace import WorkspaceSource

REAL = LakeFSConnection(url="http://lakefs:8000", access_key_id="key", secret_access_key="secret")
MEMORY = LakeFSConnection(url="memory:pipeline-parts")


def chosen(place: Path, kind: str, lakefs: LakeFSConnection) -> object:
    """The pipeline of a process."""
    said = {"PERAGO_WORKSPACE_ROOT": str(place), "PERAGO_PIPELINE": kind}
    settings = load_settings(cwd=place, process_env=said)
    return Container(connections=Connections(settings, lakefs)).pipeline()


@pytest.mark.parametrize(
    ("kind", "lakefs", "pipeline"),
    [
        ("local", REAL, LocalWorkspacePipeline),
        ("spark", REAL, SparkWorkspacePipeline),
        ("auto", REAL, SizedPipeline),
        ("local", MEMORY, LocalWorkspacePipeline),
        ("auto", MEMORY, LocalWorkspacePipeline),
    ],
)
def test_the_table(
    tmp_path: Path, kind: str, lakefs: LakeFSConnection, pipeline: type[object]
) -> None:
    assert type(chosen(tmp_path, kind, lakefs)) is pipeline


def test_spark_on_a_lakefs_that_executors_cannot_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeConfigError, match="PERAGO_PIPELINE=spark") as raised:
        chosen(tmp_path, "spark", MEMORY)
    assert raised.value.code == "PRG-C002"


def test_the_settings_say_who_and_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def large(spark: SparkConfiguration, *_: object, **__: object) -> None:
        made.append(spark)

    def sized(*_: object, objects_max: int) -> None:
        made.append(objects_max)

    monkeypatch.setattr(workspace_pipeline, "SparkWorkspacePipeline", large)
    monkeypatch.setattr(workspace_pipeline, "SizedPipeline", sized)
    said = {
        "PERAGO_PIPELINE": "auto",
        "PERAGO_PIPELINE_OBJECTS": "17",
        "PERAGO_SPARK_MASTER": "local[2]",
        "PERAGO_SPARK_CONF_spark_executor_memory": "4g",
    }
    settings = load_settings(cwd=tmp_path, process_env=said)
    Container(connections=Connections(settings, REAL)).pipeline()
    options = {"spark.executor.memory": "4g"}
    assert made == [SparkConfiguration(master="local[2]", options=options), 17]


@pytest.mark.parametrize(
    ("said", "expected"), [({}, "workspaces/.perago-cache"), ({"PERAGO_CACHE_DIR": "fast"}, "fast")]
)
def test_the_cache_is_beside_the_workspaces_unless_the_settings_say_otherwise(
    tmp_path: Path, said: dict[str, str], expected: str
) -> None:
    given = {name: str(tmp_path / folder) for name, folder in said.items()}
    root = {"PERAGO_WORKSPACE_ROOT": str(tmp_path / "workspaces")}
    settings = load_settings(cwd=tmp_path, process_env=root | given)
    assert cache_directory(settings) == tmp_path / expected


def test_what_executors_do_survives_the_way_to_them_and_is_opened_once() -> None:
    open_work = partial(open_part_work, open_lakefs, REAL)
    arrived = pickle.loads(pickle.dumps(open_work))  # noqa: S301 - its own
    assert arrived() is open_work()


@pytest.mark.parametrize(
    ("prefix", "folder"),
    [("/", "/"), ("", "/"), ("songs/", "songs"), ("/songs/2026", "songs/2026")],
)
def test_a_job_over_a_commit_gets_what_to_read_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, folder: str
) -> None:
    asked: list[tuple[object, ...]] = []

    def record(*given: object) -> None:
        asked.append(given)

    for job in ("verify_objects", "report_publications"):
        monkeypatch.setattr(publication_report, job, record)
    said = {"PERAGO_LAKEFS": "memory:jobs", "PERAGO_SPARK_MASTER": "local[2]"}
    settings = load_settings(cwd=tmp_path, process_env=said)
    repository, commit = RepositoryId("songs"), CommitId("c1")

    verify(settings, open_lakefs, repository, commit, prefix, "file:///report")
    publications(settings, open_lakefs, repository, commit)

    (spark, opener, source, report), (*same, whole) = asked
    assert (source, report) == (WorkspaceSource(repository, commit, folder), "file:///report")
    assert whole == WorkspaceSource(repository, commit, "/")
    assert spark == same[0] == SparkConfiguration(master="local[2]")
    # Executors open lakeFS themselves, so what opens it has to survive the way to them.
    for each in (opener, same[1]):
        arrived = pickle.loads(pickle.dumps(each))  # noqa: S301 - its own
        assert (arrived.func, arrived.args) == (open_lakefs, (connections_of(settings).lakefs,))
