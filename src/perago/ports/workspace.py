"""Workspaces: attempt directories, the transfer between lakeFS and disk, Spark, and progress.

`AttemptDirectories` makes one marked directory for each execution. `WorkspacePipeline` brings a
commit into it and plans and sends what changed. `DirectoryUploads` sends checkpoints.
`SparkWorkspace` is what a Spark task works with instead. `Progress` is told of each phase of an
attempt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from perago.domain.attempt import AttemptSnapshot, ExecutionId
from perago.domain.lakefs import BranchName, CommitId, RepositoryId, StagedReference
from perago.domain.retention import Owner
from perago.domain.sync_plan import FileFacts, SyncPlan


@dataclass(frozen=True, slots=True)
class AttemptMarker:
    """Who works in a directory; stored as `.perago-attempt.json` in it."""

    attempt: AttemptSnapshot
    execution_id: ExecutionId
    owner_worker_id: str
    staging_branch: str | None = None
    repository: str | None = None


@dataclass(frozen=True, slots=True)
class Leftover:
    """A directory whose owner is dead or unknown.

    `error` says why nothing could be told of it; such a one is reported and never removed.
    `has_outcome` says that a finished task function left its outcome beside it.
    """

    path: Path
    marker: AttemptMarker | None
    age_seconds: float
    owner: Owner = Owner.GONE
    error: str | None = None
    has_outcome: bool = False


def beside(directory: Path) -> Path:
    """Where checkpoints of an attempt lie: beside its directory, so that none is published."""
    return directory.with_name(f"{directory.name}.beside")


class AttemptDirectories(Protocol):
    """Directories of attempts below one root.

    Laws (tests/contract/test_attempt_directory.py has one test for each, by name):

    A1 create_is_exclusive: a fresh, empty directory with its marker; a second create of the
       same execution raises ExistsError.
    A2 directories_are_private: only the owner may read them (mode 0700).
    A3 marker_reads_back: the marker says attempt, execution and owner.
    A4 staging_is_recorded: a recorded staging branch survives in the marker.
    A5 check_finds_a_vanished_directory: a removed directory raises WorkspaceLostError.
    A6 check_finds_a_foreign_directory: a replaced or removed marker raises WorkspaceLostError.
    A7 remove_is_idempotent: removing an absent directory succeeds.
    A8 remove_refuses_what_is_not_ours: a directory without marker, or of another process that
       lives, raises WorkspaceLostError and stays.
    A9 live_owners_are_no_leftovers: a directory whose owner lives is never a leftover.
    A10 dead_owners_are_leftovers: the directory of a dead process is one.
    A11 names_are_safe: ids with slashes, dots and spaces stay below the root.
    A12 an_owner_without_a_lock_is_unknown: a directory of 0.6.1, which held no lock, is a leftover
       whose owner is unknown while any process has its number, else gone.
    A13 one_directory_stops_no_other: what cannot be read of one directory is the error of that
       leftover, and the others are found.
    A14 outcomes_outlive_their_owner: a kept outcome is found, by its key and as it was written,
       when its owner is gone and not before; it goes with its directory.
    A15 one_execution_takes_over: a directory whose owner is gone becomes that of another
       execution; one whose owner lives raises WorkspaceLostError.
    A16 a_damaged_outcome_is_found: one whose key cannot be read is found under every key, so that
       the attempt that finds it says so and removes it.
    A17 what_stands_beside_goes_too: removing a directory removes the one beside it, which is no
       leftover of its own.
    A18 what_is_left_may_be_taken_over: after `leave` the outcome of a directory is found, and one
       execution takes it over, also one of the process that left it; nothing stands beside it.
    """

    async def create(self, marker: AttemptMarker) -> Path:
        """Create the directory of one execution."""
        ...

    async def record_staging(self, directory: Path, repository: str, branch: str) -> None:
        """Write the staging branch's name into the marker, before the branch is created."""
        ...

    async def check(self, directory: Path, execution_id: ExecutionId) -> None:
        """Raise WorkspaceLostError unless this directory is still that execution's."""
        ...

    async def remove(self, directory: Path) -> None:
        """Remove a directory with all it holds."""
        ...

    async def leftovers(self, *, older_than_seconds: float) -> Sequence[Leftover]:
        """Directories without a known living owner, oldest first."""
        ...

    async def keep_outcome(self, directory: Path, key: str, text: str) -> None:
        """Write a text beside a directory; it outlives a power cut when this returns."""
        ...

    async def kept_outcomes(self, key: str) -> Sequence[tuple[Path, str]]:
        """The directories whose owners are gone, with the texts that were kept under a key."""
        ...

    async def leave(self, directory: Path) -> None:
        """Let go of a directory with an outcome, as the end of this process would."""
        ...

    async def take_over(self, directory: Path, marker: AttemptMarker) -> None:
        """Make the directory of an owner that is gone that of another execution."""
        ...


@dataclass(frozen=True, slots=True)
class WorkspaceSource:
    """The part of a commit that a task sees; the prefix is `/` or has no outer slashes."""

    repository: RepositoryId
    commit: CommitId
    prefix: str


@dataclass(frozen=True, slots=True)
class TransferCounts:
    """What a step moved: objects, bytes, and what it did not have to move."""

    objects: int = 0
    bytes: int = 0
    reused: int = 0
    requests: int = 0


@dataclass(frozen=True, slots=True)
class Materialised:
    """A workspace on disk together with the index that finds its changes again."""

    source: WorkspaceSource
    directory: Path
    counts: TransferCounts


@dataclass(frozen=True, slots=True)
class StagingArea:
    """An open staging branch: the commit it started from stands in `commit`."""

    staged: StagedReference
    prefix: str


class WorkspacePipeline(Protocol):
    """Transfer between lakeFS and a directory.

    Laws (tests/contract/test_workspace_pipeline.py has one test for each, by name):

    P1 materialise_is_exact: the directory has exactly the objects under the prefix, their bytes
       and nothing else but the marker.
    P2 prefix_is_mapped: paths are relative to the prefix; siblings that share its string do not
       appear.
    P3 reserved_paths_stay_out: objects below `_lakefs_actions/` and markers never appear.
    P4 unsafe_names_are_refused_before_anything_moves: UnsafeNameError names the object.
    P5 untouched_workspace_has_no_changes: planning at once gives an empty plan.
    P6 plan_names_additions_changes_deletions: each once, and nothing else.
    P7 same_bytes_are_no_change: a file rewritten with its own bytes is not in the plan.
    P8 symlinks_are_refused: a symlink, to a file or a directory, raises with the fixed text.
    P9 transfer_makes_the_tree: after a transfer the staging branch holds exactly the directory
       under the prefix, and everything else as it was.
    P10 untouched_objects_keep_their_metadata: content type and user metadata stay.
    P11 changed_objects_keep_their_metadata: a changed object keeps type and user metadata.
    P12 a_lost_directory_is_an_error: planning without the directory raises WorkspaceLostError.
    P13 verify_accepts_the_transfer: verification passes after a transfer.
    P14 verify_finds_a_difference: an object changed behind its back raises DamagedObjectError.
    P15 reserved_writes_are_refused: a file below `_lakefs_actions/` raises ReservedPathError
       when the prefix is `/`.
    P16 directory_markers_are_ignored: zero-byte `x/` objects do not appear and are not deleted.
    P17 unknown_commit: raises ReferenceMissingError.
    P18 empty_prefix_is_empty: a prefix without objects gives an empty directory.
    P19 another_process_goes_on: where a workspace can be described, another process reopens it,
       plans the same changes and transfers them.
    P20 a_changed_directory_is_not_reopened: a file that was written, added, removed or replaced
       since raises WorkspaceLostError, and so does a text that is no description.
    P21 lost_answer_is_unknown: law L0. A transfer raises OutcomeUnknownError when the answer to one
       of its uploads, copies or deletions is lost.
    """

    async def materialise(self, source: WorkspaceSource, directory: Path) -> Materialised:
        """Copy the part of a commit into an existing directory that holds only its marker."""
        ...

    async def plan(self, materialised: Materialised) -> SyncPlan:
        """Compare the directory with what was materialised."""
        ...

    async def transfer(
        self, materialised: Materialised, plan: SyncPlan, area: StagingArea
    ) -> TransferCounts:
        """Bring the plan's changes onto the staging branch, uncommitted."""
        ...

    async def verify(self, materialised: Materialised, plan: SyncPlan, area: StagingArea) -> None:
        """Check that the staging branch differs from its start by exactly the plan."""
        ...

    async def forget(self, materialised: Materialised) -> None:
        """Drop what is remembered of a materialised workspace."""
        ...

    async def describe(self, materialised: Materialised) -> str | None:
        """What `reopen` needs to go on in another process; None where that cannot be done."""
        ...

    async def reopen(
        self, source: WorkspaceSource, directory: Path, described: str
    ) -> Materialised:
        """Go on with a directory that another process has materialised and described."""
        ...


class DirectoryUploads(Protocol):
    """Brings a directory onto a private branch, again and again, while its files change.

    A workspace is compared with what was downloaded. A directory here was never downloaded: it is
    compared with what the branch holds.

    Laws (tests/contract/test_object*.py have one test for each, by name):

    U1 bring_makes_the_tree: afterwards the branch holds exactly the directory below the prefix, and
       everything else as it was.
    U2 only_changes_travel: a file that the branch holds with the same bytes is not sent again.
    U3 held_is_what_the_branch_shows: also what was written and not committed.
    U4 symlinks_are_refused: a symlink raises with the fixed text, and nothing is written.
    U5 a_missing_branch: raises BranchMissingError.
    U6 lost_answer_is_unknown: law L0. An upload whose answer is lost raises OutcomeUnknownError.
    """

    async def held(self, area: StagingArea) -> Mapping[str, FileFacts]:
        """What a branch holds below the prefix now, by relative path."""
        ...

    async def bring(
        self, directory: Path, held: Mapping[str, FileFacts], area: StagingArea
    ) -> tuple[Mapping[str, FileFacts], TransferCounts]:
        """Make the branch hold the directory; what it holds then, and what travelled."""
        ...


WriteMode = Literal["append", "overwrite", "error", "ignore"]


@dataclass(frozen=True, slots=True)
class SparkGateway:
    """How Spark reaches lakeFS: the S3 gateway of the server, and the keys for it."""

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SparkRoots:
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
    """What the function of a Spark task works with.

    Laws (tests/contract/test_spark_workspace.py has one test for each, by name):

    X1 reads_are_of_the_input: `read` and `table` see the input commit, whatever the body or
       another writer has written since.
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


class Phase(StrEnum):
    """What an attempt emits: its steps in their order; the last four may come at any time."""

    STARTED = "started"
    POLICY = "policy"
    RESUMED = "resumed"
    TRANSFERRING = "transferring"
    MATERIALISED = "materialised"
    WENT_ON = "went-on"
    PRE_CHECKED = "pre-checked"
    CHECKPOINTED = "checkpointed"
    FUNCTION_ENDED = "function-ended"
    RECOVERED = "recovered"
    POST_CHECKED = "post-checked"
    COMPARED = "compared"
    FENCED = "fenced"
    STAGING = "staging"
    STAGED = "staged"
    CHECKED = "checked"
    DECIDED = "decided"
    PUBLISHED = "published"
    COMPLETED = "completed"
    HANDED_BACK = "handed-back"
    CLEANED = "cleaned"
    ENDED = "ended"
    WARNED = "warned"
    LOST = "lost"
    WAITING = "waiting"
    WAITED = "waited"


class Progress(Protocol):
    """Takes the events of an attempt; it never raises and never decides.

    Laws (tests/contract/test_progress.py has one test for each, by name):

    G1 never_raises: facts of any kind, exceptions and unserialisable values included, are taken.
    """

    def phase(self, phase: Phase, facts: Mapping[str, object]) -> None:
        """Something happened, with what is known of it."""
        ...
