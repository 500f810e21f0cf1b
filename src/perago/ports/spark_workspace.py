"""A workspace as Spark sees it: nothing passes through the worker, tables stay in lakeFS.

Says what a body may rely on. No type of pyspark stands here: sessions, readers and data frames
are what the installed pyspark says they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from perago.domain.references import BranchName, CommitId, RepositoryId

WriteMode = Literal["append", "overwrite", "error", "ignore"]


@dataclass(frozen=True, slots=True)
class SparkGateway:
    """How Spark reaches lakeFS: the S3 gateway of the server, and the keys for it."""

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """Where one attempt reads and writes; the roots are URIs that end in a slash.

    `output_root` is None for a read-only task. Without a gateway the roots are local files.
    """

    repository: RepositoryId
    input_ref: CommitId
    prefix: str
    input_root: str
    output_root: str | None
    staging_branch: BranchName | None = None
    gateway: SparkGateway | None = None


class SparkWorkspace(Protocol):
    """What the body of a Spark task works with.

    Laws (tests/contract/test_spark_workspace.py has one test for each, by name):

    X1 reads_are_of_the_input: `read` and `table` see the input commit, whatever the body or
       anybody else has written since.
    X2 writes_are_on_staging: what was written reads back from `output`, and is not at the input.
    X3 overwriting_replaces_the_table: mode `overwrite` leaves the new rows only, on staging only.
    X4 partitions_are_directories: `partition_by` columns are in the paths and read back.
    X5 formats_round_trip: Parquet, CSV, JSON and ORC by `uri` and `output`.
    X6 paths_stay_inside: absolute paths, `..` and URIs are refused with SparkPathError.
    X7 read_only_has_no_output: `output` and `write` raise ReadOnlyWorkspaceError.
    X8 a_missing_table_is_named: reading a table that is not there raises with its path.
    """

    @property
    def spark(self) -> Any:  # noqa: ANN401 - a pyspark session
        """The session of this attempt, configured for this repository."""
        ...

    @property
    def read(self) -> Any:  # noqa: ANN401 - reads like pyspark's DataFrameReader
        """A reader whose paths are relative to the prefix, at the input commit."""
        ...

    @property
    def input_ref(self) -> CommitId:
        """The input commit."""
        ...

    @property
    def prefix(self) -> str:
        """The prefix of the workspace; `/` is the whole repository."""
        ...

    def table(self, path: str, *, format: str = "parquet") -> Any:  # noqa: ANN401, A002 - pyspark's
        """The table at a path of the input commit, as a data frame."""
        ...

    def uri(self, path: str) -> str:
        """What Spark opens for a path of the input commit."""
        ...

    def output(self, path: str) -> str:
        """What Spark opens for a path on the attempt's own staging branch."""
        ...

    def write(
        self,
        df: Any,  # noqa: ANN401 - a pyspark data frame
        path: str,
        mode: WriteMode = "overwrite",
        partition_by: Sequence[str] = (),
        *,
        format: str = "parquet",  # noqa: A002 - pyspark's own word
    ) -> None:
        """Write a data frame to the staging branch."""
        ...
