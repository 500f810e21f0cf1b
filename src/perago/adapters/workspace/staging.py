"""A plan onto its staging branch, and the branch against the plan.

Uploads, copies on the server and deletions go side by side. Afterwards the branch is asked: first
for its uncommitted paths, then for the objects that were written.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import final

from perago.adapters.workspace.progress import TransferListener, TransferMeter
from perago.domain.key_ranges import ListingWindow, windows
from perago.domain.logical_execution import NO_METADATA
from perago.domain.paths import md5_of_checksum, object_path
from perago.domain.sync_plan import FileFacts, SyncPlan, batched
from perago.ports.errors import DamagedObjectError
from perago.ports.lakefs import ChangeKind, Commits
from perago.ports.objects import (
    DEFAULT_CONTENT_TYPE,
    DELETE_PATHS_MAX,
    LIST_AMOUNT_MAX,
    ObjectEntry,
    Objects,
    ObjectTransport,
    ObjectUpload,
)
from perago.ports.system import Concurrency
from perago.ports.workspace import StagingArea, TransferCounts

# A copy on the server and a page of a listing are short requests: what takes time is the way
# there and back, so some are under way together.
COPIES_AT_ONCE = 16
WINDOWS_AT_ONCE = 8
DELETIONS_AT_ONCE = 4  # each is a thousand paths, which keep the server busy by themselves

EntryOf = Callable[[str], ObjectEntry | None]
"""The object that a file was when it was materialised; None for a new file."""


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
        entry_of: EntryOf,
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
            self._upload(directory, entry_of, upload, area, meter),
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
        entry_of: EntryOf,
        files: Sequence[FileFacts],
        area: StagingArea,
        meter: TransferMeter,
    ) -> None:
        if not files:
            return
        largest_first = sorted(files, key=lambda facts: facts.size, reverse=True)
        uploads = [_upload_of(directory, entry_of, facts, area.prefix) for facts in largest_first]
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

        await self._concurrency.each(copies, copy_one, at_most=COPIES_AT_ONCE)

    async def _delete(self, paths: Sequence[str], area: StagingArea) -> None:
        full = [object_path(area.prefix, path) for path in paths]
        pages = list(batched(full, DELETE_PATHS_MAX))

        async def delete_page(page: Sequence[str]) -> None:
            await self._objects.delete_many(area.staged.repository, area.staged.branch, page)

        await self._concurrency.each(pages, delete_page, at_most=DELETIONS_AT_ONCE)


@final
class StagingVerification:
    """Compares a branch with a plan; changes nothing.

    The written objects are asked for in windows of the listing: never more windows than objects
    were written, nor many more than the listing has pages.
    """

    def __init__(self, objects: Objects, commits: Commits, concurrency: Concurrency) -> None:
        self._objects = objects
        self._commits = commits
        self._concurrency = concurrency

    async def check(self, base: Collection[str], plan: SyncPlan, area: StagingArea) -> None:
        """Raise DamagedObjectError for the first path that is not as planned."""
        written = {object_path(area.prefix, facts.path): facts for facts in _written(plan)}
        left = set(base).difference(plan.delete)
        tree = written.keys() | {object_path(area.prefix, path) for path in left}
        asked = windows(sorted(tree), sorted(written), amount_max=LIST_AMOUNT_MAX)
        await self._concurrency.together(
            self._check_paths(_expected_changes(base, plan, area.prefix), area),
            self._check_contents(written, asked, area),
        )

    async def _check_paths(self, expected: Mapping[str, ChangeKind], area: StagingArea) -> None:
        found: dict[str, ChangeKind] = {}
        after = ""
        while True:
            page = await self._commits.uncommitted_page(
                area.staged.repository, area.staged.branch, after=after
            )
            found.update((change.path, change.kind) for change in page.changes)
            if not page.more:
                break
            after = page.changes[-1].path
        for path in sorted(expected.keys() | found.keys()):
            if expected.get(path) != found.get(path):
                raise difference(area, path, expected.get(path), found.get(path))

    async def _check_contents(
        self, written: dict[str, FileFacts], asked: Sequence[ListingWindow], area: StagingArea
    ) -> None:
        async def check_window(window: ListingWindow) -> None:
            for entry in await self._window(window, area):
                facts = written.get(entry.path)
                if facts is not None:
                    check_entry(area, facts, entry)

        await self._concurrency.each(asked, check_window, at_most=WINDOWS_AT_ONCE)

    async def _window(self, window: ListingWindow, area: StagingArea) -> list[ObjectEntry]:
        entries: list[ObjectEntry] = []
        after = window.after
        while True:
            page = await self._objects.list_page(
                area.staged.repository,
                area.staged.branch,
                prefix=window.prefix,
                after=after,
                amount=window.amount,
            )
            entries.extend(page.entries)
            if not page.more or page.entries[-1].path >= window.last:
                return entries
            after = page.entries[-1].path


def _upload_of(directory: Path, entry_of: EntryOf, facts: FileFacts, prefix: str) -> ObjectUpload:
    before = entry_of(facts.path)
    content_type = DEFAULT_CONTENT_TYPE if before is None else before.content_type
    if not content_type.isprintable():
        # lakeFS lets any client store one with a line break, and no header can carry it back.
        # With it, every upload of a changed file to that object would fail.
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


def _written(plan: SyncPlan) -> list[FileFacts]:
    """What a plan writes, uploaded or copied on the server."""
    return [*plan.upload, *(facts for facts, _ in plan.copy)]


def _expected_changes(base: Collection[str], plan: SyncPlan, prefix: str) -> dict[str, ChangeKind]:
    before = set(base)
    expected = {object_path(prefix, path): ChangeKind.REMOVED for path in plan.delete}
    for facts in _written(plan):
        kind = ChangeKind.CHANGED if facts.path in before else ChangeKind.ADDED
        expected[object_path(prefix, facts.path)] = kind
    return expected


def check_entry(area: StagingArea, facts: FileFacts, entry: ObjectEntry) -> None:
    """Raise unless an object of the staging branch is the file that was planned."""
    md5 = md5_of_checksum(entry.checksum) or facts.checksum
    if (entry.size, md5) != (facts.size, facts.checksum):
        raise difference(area, entry.path, facts.checksum, md5)


def difference(area: StagingArea, path: str, expected: object, found: object) -> DamagedObjectError:
    """The error for a path that did not become what was planned."""
    return DamagedObjectError(
        f"staging branch {area.staged.branch} is not what was planned at {path!r}: expected"
        f" {expected or 'no change'}, found {found or 'no change'}; nothing was published"
    )
