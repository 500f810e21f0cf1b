"""Checkpoints of one attempt: go on from the newest one, upload those that the function takes.

The task function copies files beside its directory (`app/authoring/checkpoint_copies.py`). The
parent brings each copy onto the hidden branch of this execution and commits it. A checkpoint that
cannot be uploaded never fails the attempt.

A later attempt of the same logical execution starts its own branch from the checkpoint that it went
on from, so only what changed since travels, also across attempts and hosts. Its first checkpoint
makes the older branches superfluous; the decision makes all of them so.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from perago.app.attempt.complete import delete_staging
from perago.app.attempt.context import Attempt
from perago.app.attempt.patience import LAKEFS
from perago.app.authoring.checkpoint_copies import FOUND, ClaimedCopy, claim, make_empty, release
from perago.domain import checkpoints
from perago.domain.commit_metadata import commit_message
from perago.domain.errors import BodyFailedError
from perago.domain.lakefs import BranchName, CommitId
from perago.domain.sync_plan import FileFacts
from perago.ports import workspace
from perago.ports.errors import BranchExistsError, DamagedObjectError, MissingError, ServiceError
from perago.ports.lakefs import CommitRequest
from perago.ports.task_body import BodyStopped, Checkpoint

NOT_UPLOADED = "a checkpoint was not uploaded"
NOT_FOUND = "the newest checkpoint cannot be used, so the task function begins anew"


@dataclass(slots=True)
class AttemptCheckpoints:
    """The checkpoints of one attempt; one upload at a time."""

    attempt: Attempt
    uploads: workspace.DirectoryUploads
    area: workspace.StagingArea
    siblings: str  # how the checkpoint branches of all executions of this one begin
    directory: Path
    earlier: list[BranchName] = field(default_factory=list[BranchName])
    found: Checkpoint | None = None
    _number: int = 0
    _is_open: bool = False
    _held: Mapping[str, FileFacts] | None = None

    async def upload(self) -> None:
        """Upload the newest copy that waits, if one does; whatever fails is said."""
        blocking = self.attempt.ports.concurrency.blocking
        try:
            copy = await blocking(partial(claim, self.directory))
            if copy is not None:
                await self._send(copy)
        except Exception as error:  # noqa: BLE001 - a checkpoint never fails an attempt
            await self._warn(NOT_UPLOADED, error)
        finally:
            await blocking(partial(release, self.directory))

    async def go_on_from_newest(self) -> None:
        """Download the newest checkpoint of earlier executions beside the workspace.

        A damaged one, or one that is removed meanwhile, costs the time that it stood for, and not
        the attempt.
        """
        repository = self.area.staged.repository
        page = await self.attempt.ports.lakefs.branches.list_page(
            repository, self.siblings, show_hidden=True
        )
        self.earlier, self.attempt.leftovers.unlisted = [name for name, _ in page.items], None
        self.attempt.leftovers.checkpoints.extend((repository, name) for name in self.earlier)
        try:
            for _, commit in reversed(page.items):
                record = await self.attempt.ports.lakefs.commits.read(repository, commit)
                checkpoint = checkpoints.read_checkpoint(record)
                if checkpoint is not None:
                    await self._download(commit, checkpoint)
                    return
        except (MissingError, DamagedObjectError) as error:
            await self._warn(NOT_FOUND, error)

    async def _download(self, commit: CommitId, checkpoint: checkpoints.CheckpointRecord) -> None:
        pipeline = self.attempt.ports.lakefs.pipeline
        source = workspace.WorkspaceSource(
            self.area.staged.repository, commit, checkpoints.CHECKPOINT_FOLDER
        )
        blocking, directory = self.attempt.ports.concurrency.blocking, self.directory / FOUND

        async def download() -> workspace.Materialised | BodyStopped:
            await blocking(partial(make_empty, directory))  # an outage may have left half of it
            return await self.attempt.ports.stop_order.before_end_of(
                pipeline.materialise(source, directory)
            )

        materialised = await self.attempt.ports.patience.until_done(
            LAKEFS, "the download of a checkpoint", download
        )
        if isinstance(materialised, BodyStopped):
            raise BodyFailedError(materialised.reason, cause=materialised.cause)
        await pipeline.forget(materialised)
        self.area = replace(self.area, staged=replace(self.area.staged, commit=commit))
        self._number = checkpoint.number
        self.found = Checkpoint(directory, checkpoint.note, checkpoint.taken_at)
        taken_at = checkpoint.taken_at.isoformat()
        facts = {"checkpoint": checkpoint.number, "commit": commit, "taken_at": taken_at}
        self._tell(workspace.Phase.WENT_ON, facts, materialised.counts)

    async def _send(self, copy: ClaimedCopy) -> None:
        taken_at = self.attempt.ports.clock.now()
        held = self._held if self._is_open and self._held is not None else await self._open()
        self._held = None  # until the commit is answered; without an answer the next upload asks
        held, counts = await self.uploads.bring(copy.directory, held, self.area)
        checkpoint = checkpoints.CheckpointRecord(self._number + 1, copy.note, taken_at)
        row, staged = self.attempt.row, self.area.staged
        commit = await self.attempt.ports.lakefs.commits.commit(
            CommitRequest(
                repository=staged.repository,
                branch=staged.branch,
                message=commit_message(row, checkpoints.CHECKPOINT),
                metadata=checkpoints.checkpoint_metadata(
                    row, self.attempt.execution_id, checkpoint
                ),
                # The files may be those of the checkpoint before, with another note.
                allow_empty=True,
            )
        )
        self._held, self._number = held, checkpoint.number
        facts = {"checkpoint": checkpoint.number, "branch": staged.branch, "commit": commit}
        self._tell(workspace.Phase.CHECKPOINTED, facts, counts)
        while self.earlier:  # this commit is newer than all of theirs
            await delete_staging(self.attempt.ports, staged.repository, self.earlier.pop())

    async def _open(self) -> Mapping[str, FileFacts]:
        """Create the branch with the first checkpoint; what it holds."""
        staged = self.area.staged
        if not self._is_open:
            # Written down first: whatever dies after this line, the branch is removed.
            named = (staged.repository, staged.branch)
            if named not in self.attempt.leftovers.checkpoints:
                self.attempt.leftovers.checkpoints.append(named)
            with suppress(BranchExistsError):  # of an earlier try, whose answer was lost
                await self.attempt.ports.lakefs.branches.create(
                    staged.repository, staged.branch, staged.commit, hidden=True
                )
            self._is_open = True
        return await self.uploads.held(self.area)

    async def _warn(self, warning: str, error: Exception) -> None:
        """Into the worker's log and the log of the task in Conductor."""
        self.attempt.ports.warn(warning, error=str(error))
        line = self.attempt.settings.secrets.masked(f"perago {warning}: {error}")
        with suppress(ServiceError):  # the worker's log has it
            await self.attempt.ports.queue.log(self.attempt.row.task_id, line)

    def _tell(
        self, phase: workspace.Phase, facts: Mapping[str, object], counts: workspace.TransferCounts
    ) -> None:
        moved = {"objects": counts.objects, "bytes": counts.bytes, "reused": counts.reused}
        self.attempt.ports.progress.phase(phase, {**facts, **moved})
