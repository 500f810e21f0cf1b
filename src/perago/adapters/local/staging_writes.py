"""Bringing a plan onto a staging branch: uploads, server-side copies and deletions side by side.

Knows the plan and the index; what the branch is for is not known here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, final

from perago.adapters.local.transfer_meter import TransferListener, TransferMeter
from perago.adapters.local.workspace_index import IndexedFile
from perago.domain.object_checksum import md5_of_checksum
from perago.domain.prefix_projection import object_path
from perago.domain.references import NO_METADATA
from perago.domain.sync_plan import FileFacts, SyncPlan
from perago.ports.concurrency import Concurrency
from perago.ports.errors import DamagedObjectError
from perago.ports.object_transport import ObjectTransport
from perago.ports.objects import (
    DEFAULT_CONTENT_TYPE,
    DELETE_PATHS_MAX,
    ObjectEntry,
    Objects,
    ObjectUpload,
)
from perago.ports.workspace_pipeline import StagingArea, TransferCounts

COPY_LANES_MAX = 16
DELETE_LANES_MAX = 4


class KnownFiles(Protocol):
    """What is known of the files that were materialised."""

    def get(self, path: str, /) -> IndexedFile | None:
        """One of them, or None for a new one."""
        ...


@final
class StagingWrites:
    """Writes plans; holds the ways to write and nothing of any attempt."""

    def __init__(
        self,
        objects: Objects,
        transport: ObjectTransport,
        concurrency: Concurrency,
        listener: TransferListener | None,
    ) -> None:
        self._listener = listener
        self._objects = objects
        self._transport = transport
        self._concurrency = concurrency

    async def write(
        self,
        directory: Path,
        index: KnownFiles,
        plan: SyncPlan,
        area: StagingArea,
        *,
        skipped: int = 0,
    ) -> TransferCounts:
        """Make every change of the plan; any refusal raises after the others have ended."""
        upload = tuple(plan.upload)
        size = sum(facts.size for facts in upload)
        meter = TransferMeter(self._listener, "up", files=len(upload), size=size, skipped=skipped)
        await self._concurrency.together3(
            self._upload(directory, index, upload, area, meter),
            self._copy(tuple(plan.copy), area),
            self._delete(tuple(plan.delete), area),
        )
        deletes = -(-len(plan.delete) // DELETE_PATHS_MAX)
        return TransferCounts(
            objects=len(upload),
            bytes=size,
            reused=len(plan.copy),
            requests=len(upload) + len(plan.copy) + deletes,
        )

    async def _upload(
        self,
        directory: Path,
        index: KnownFiles,
        files: Sequence[FileFacts],
        area: StagingArea,
        meter: TransferMeter,
    ) -> None:
        if not files:
            return
        largest_first = sorted(files, key=lambda facts: facts.size, reverse=True)
        uploads = [_upload_of(directory, index, facts, area.prefix) for facts in largest_first]
        answers = await self._transport.store(
            area.staged.repository, area.staged.branch, uploads, meter.moved
        )
        for facts, answer in zip(largest_first, answers, strict=True):
            check_written(facts, answer, "uploaded")

    async def _copy(self, copies: Sequence[tuple[FileFacts, str]], area: StagingArea) -> None:
        async def copy_one(copy: tuple[FileFacts, str]) -> None:
            facts, source = copy
            answer = await self._objects.copy(
                area.staged.repository,
                area.staged.branch,
                source_ref=area.staged.commit,
                source_path=object_path(area.prefix, source),
                target_path=object_path(area.prefix, facts.path),
            )
            check_written(facts, answer, "copied")

        await self._concurrency.each(copies, copy_one, at_most=COPY_LANES_MAX)

    async def _delete(self, paths: Sequence[str], area: StagingArea) -> None:
        full = [object_path(area.prefix, path) for path in paths]
        pages = [
            full[start : start + DELETE_PATHS_MAX]
            for start in range(0, len(full), DELETE_PATHS_MAX)
        ]

        async def delete_page(page: Sequence[str]) -> None:
            await self._objects.delete_many(area.staged.repository, area.staged.branch, page)

        await self._concurrency.each(pages, delete_page, at_most=DELETE_LANES_MAX)


def _upload_of(directory: Path, index: KnownFiles, facts: FileFacts, prefix: str) -> ObjectUpload:
    before = index.get(facts.path)
    content_type = DEFAULT_CONTENT_TYPE if before is None else before.content_type
    if not content_type.isprintable():
        # lakeFS lets any client store one with a line break, and no header can carry it back: every
        # change of that object would fail.
        content_type = DEFAULT_CONTENT_TYPE
    return ObjectUpload(
        path=object_path(prefix, facts.path),
        source=directory / facts.path,
        content_type=content_type,
        metadata=NO_METADATA if before is None else before.metadata,
    )


def check_written(facts: FileFacts, answer: ObjectEntry, how: str) -> None:
    """Compare what the server says it holds with what was compared before."""
    md5 = md5_of_checksum(answer.checksum) or facts.checksum
    if (answer.size, md5) != (facts.size, facts.checksum):
        raise DamagedObjectError(
            f"{answer.path} was {how} with other bytes than were planned: expected"
            f" {facts.size} bytes with MD5 {facts.checksum}, found {answer.size} with {md5};"
            " nothing was published; a process of the task may still write to it"
        )
