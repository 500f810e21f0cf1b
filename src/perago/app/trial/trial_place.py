"""Where a trial's files lie: one directory for a body on files, two for a body on Spark.

A Spark body reads a copy of the input and writes to the directory that is compared afterwards.
Runs nothing and knows no pyspark.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.app.authoring.task_definition import TaskDefinition
from perago.app.trial.file_tree import write_tree
from perago.domain.prefix_projection import listing_prefix
from perago.domain.references import CommitId, RepositoryId
from perago.ports.spark_workspace import SparkPlace

TRIAL = "trial"


@dataclass(frozen=True, slots=True)
class TrialPlace:
    """The directory that guardrails judge, and what a Spark body is given instead of it."""

    root: Path
    spark: SparkPlace | None = None


def make_place(
    task: TaskDefinition, directory: Path, files: Mapping[str, bytes | str]
) -> TrialPlace:
    """Lay the files out in an empty directory."""
    if not task.on_spark or task.workspace is None:
        write_tree(directory, files)
        return TrialPlace(directory)
    spec = task.workspace
    roots = [directory / side / listing_prefix(spec.prefix) for side in ("input", "output")]
    for root in roots:
        root.mkdir(parents=True)
        write_tree(root, files)
    output = None if spec.read_only else f"file://{directory / 'output'}/"
    place = SparkPlace(
        repository=RepositoryId(TRIAL),
        input_ref=CommitId(TRIAL),
        prefix=spec.prefix,
        input_root=f"file://{directory / 'input'}/",
        output_root=output,
    )
    return TrialPlace(roots[1], place)
