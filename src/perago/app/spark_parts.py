"""The part of the composition root for Spark: workspaces of bodies, and jobs over commits.

Starts nothing that is not asked for; pyspark is imported by the first session.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from perago.adapters.spark import jars
from perago.adapters.spark.publication_report import (
    ReportedPublications,
    Verified,
    report_publications,
    verify_objects,
)
from perago.adapters.spark.session import SparkConfiguration
from perago.adapters.spark.workspace import SparkCall, open_workspace
from perago.app.authoring.current_attempt import CurrentAttempt
from perago.app.connections import LakeFSConnection, connections_of
from perago.app.settings.settings import Settings, load_settings
from perago.domain.lakefs import CommitId, RepositoryId
from perago.ports.installations import LakeFSInstallation
from perago.ports.workspace import SparkGateway, SparkRoots, SparkWorkspace, WorkspaceSource


def open_spark_workspace(
    roots: SparkRoots, attempt: CurrentAttempt
) -> AbstractContextManager[SparkWorkspace]:
    """Open a workspace in this process's Spark session, for the time of a body."""
    call = SparkCall(
        execution_id=attempt.execution_id,
        description=f"{attempt.task_name} {attempt.workflow_id} {attempt.task_id}",
        cancelled=attempt.cancel.is_set,
        report=attempt.report,
    )
    return open_workspace(spark_configuration(load_settings()), roots, call)


def spark_configuration(settings: Settings) -> SparkConfiguration:
    """What the operator says about Spark."""
    return SparkConfiguration(master=settings.spark_master, options=settings.spark_conf)


def fetch_spark_jars(ivy_settings: Path | None) -> list[Path]:
    """Fetch what is missing; offline once it is there."""
    return jars.fetch_jars(settings=ivy_settings)


def installed_spark(settings: Settings, gateway: SparkGateway | None) -> tuple[str, str]:
    """The version of pyspark, and a line of all versions; raises for what does not fit together."""
    jars.require_pyspark()
    facts = jars.read_facts()
    names = {path.name for path in jars.found_jars()} | jars.named_jars(settings.spark_conf)
    jars.check_versions(facts, names, needs_s3a=gateway is not None)
    return facts.pyspark, f"pyspark {facts.pyspark}, Hadoop {facts.hadoop}, Java {facts.java}"


def require_spark() -> None:
    """Refuse to go on without pyspark; asked before a server is, because it is known at once."""
    jars.require_pyspark()


def verify(
    settings: Settings, repository: RepositoryId, commit: CommitId, prefix: str, report: str
) -> Verified:
    """Read every object of a commit on the executors."""
    source = WorkspaceSource(repository, commit, prefix.strip("/") or "/")
    return verify_objects(spark_configuration(settings), _opener(settings), source, report)


def publications(
    settings: Settings, repository: RepositoryId, commit: CommitId
) -> ReportedPublications:
    """Count the publications in the history of a branch."""
    source = WorkspaceSource(repository, commit, "/")
    return report_publications(spark_configuration(settings), _opener(settings), source)


def _opener(settings: Settings) -> Callable[[], LakeFSInstallation]:
    return partial(_open_lakefs, connections_of(settings).lakefs)


def _open_lakefs(connection: LakeFSConnection | None) -> LakeFSInstallation:
    """Runs on executors: the container is imported where the work is done."""
    from perago.app.container import open_lakefs  # noqa: PLC0415 - on the executor

    return open_lakefs(connection)
