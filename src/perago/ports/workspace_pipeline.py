"""Moving a workspace: what a commit holds, its copy on disk, what changed, and back up again."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from perago.domain.references import CommitId, RepositoryId, StagedReference
from perago.domain.sync_plan import SyncPlan


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

    async def listing(self, source: WorkspaceSource) -> Collection[str]:
        """The relative paths of a workspace in order, without moving it."""
        ...

    async def forget(self, materialised: Materialised) -> None:
        """Drop what is remembered of a materialised workspace."""
        ...
