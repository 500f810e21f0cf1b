"""A plan onto its staging branch, and the branch against the plan.

Uploads, copies on the server and deletions go side by side. Afterwards the branch is asked: first
for its uncommitted paths, then for the objects that were written. `bring` is for checkpoints. It
reads every byte of a directory each time, because its files are copies, whose stamps do not say
whether the originals were written since.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

from perago.adapters.workspace.changes import hashed_files, refuse_name, scan
from perago.domain.key_ranges import ListingWindow, windows
from perago.domain.lakefs import NO_METADATA
from perago.domain.paths import listing_prefix, md5_of_checksum, object_path, relative_path
from perago.domain.sync_plan import FileFacts, SyncPlan, batched, plan_sync
from perago.ports.asking import pages
from perago.ports.errors import DamagedObjectError, disk_errors
from perago.ports.lakefs import ChangeKind, Commits
from perago.ports.objects import (
    DEFAULT_CONTENT_TYPE,
    DELETE_PATHS_MAX,
    LIST_AMOUNT_MAX,
    Moved,
    ObjectEntry,
    Objects,
    ObjectTransport,
    ObjectUpload,
    uncounted,
)
from perago.ports.system import Concurrency
from perago.ports.workspace import DirectoryUploads, StagingArea, TransferCounts

# A copy on the server and a page of a listing are short requests: what takes time is the way
# there and back, so some are under way together.
COPIES_AT_ONCE = 16
WINDOWS_AT_ONCE = 8  # fewer than copies: each answer has up to a thousand entries
DELETIONS_AT_ONCE = 4  # each is a thousand paths, which keep the server busy by themselves
# For checkpoints: beside a task function that needs the processors itself. One would make a
# checkpoint of some gigabytes take longer than the interval.
HASHING_THREADS_MAX = 2

EntryOf = Callable[[str], ObjectEntry | None]
"""The object that a file was when it was materialised; None for a new file."""


@final
class Staging(DirectoryUploads):
    """Writes plans and whole directories, and checks plans; holds nothing of any attempt."""

    def __init__(
        self,
        objects: Objects,
        commits: Commits,
        transport: ObjectTransport,
        concurrency: Concurrency,
    ) -> None:
        self._objects = objects
        self._commits = commits
        self._transport = transport
        self._concurrency = concurrency

    async def write(
        self,
        directory: Path,
        entry_of: EntryOf,
        plan: SyncPlan,
        area: StagingArea,
        moved: Moved = uncounted,
    ) -> TransferCounts:
        """Make every change of the plan; any refusal raises after the others have ended."""
        staged, prefix = area.staged, area.prefix
        pages = list(batched((object_path(prefix, path) for path in plan.delete), DELETE_PATHS_MAX))

        async def upload() -> None:
            files = sorted(plan.upload, key=lambda facts: facts.size, reverse=True)
            uploads = [_upload_of(directory, entry_of, facts, prefix) for facts in files]
            if uploads:
                repository, branch = staged.repository, staged.branch
                answers = await self._transport.store(repository, branch, uploads, moved)
                for facts, answer in zip(files, answers, strict=True):
                    _check_written(facts, answer, "uploaded")

        async def copy_one(copy: tuple[FileFacts, str]) -> None:
            facts, source = copy
            answer = await self._objects.copy(
                staged.repository,
                staged.branch,
                source_ref=staged.commit,
                source_path=object_path(prefix, source),
                target_path=object_path(prefix, facts.path),
            )
            _check_written(facts, answer, "copied")

        async def delete_page(page: Sequence[str]) -> None:
            await self._objects.delete_many(staged.repository, staged.branch, page)

        each = self._concurrency.each
        await self._concurrency.together3(
            upload(),
            each(tuple(plan.copy), copy_one, at_most=COPIES_AT_ONCE),
            each(pages, delete_page, at_most=DELETIONS_AT_ONCE),
        )
        return TransferCounts(
            objects=len(plan.upload),
            bytes=sum(facts.size for facts in plan.upload),
            reused=len(plan.copy),
            requests=len(plan.upload) + len(plan.copy) + len(pages),
        )

    async def check(self, base: Collection[str], plan: SyncPlan, area: StagingArea) -> None:
        """Raise DamagedObjectError for the first path that is not as planned.

        The written objects are asked for in windows of the listing: never more windows than
        objects were written, nor many more than the listing has pages.
        """
        files = [*plan.upload, *(facts for facts, _ in plan.copy)]
        written = {object_path(area.prefix, facts.path): facts for facts in files}
        before = {object_path(area.prefix, path) for path in base}
        gone = {object_path(area.prefix, path) for path in plan.delete}
        expected = {
            path: ChangeKind.CHANGED if path in before else ChangeKind.ADDED for path in written
        } | dict.fromkeys(gone, ChangeKind.REMOVED)
        tree = sorted(written.keys() | (before - gone))
        asked = windows(tree, sorted(written), amount_max=LIST_AMOUNT_MAX)

        async def check_window(window: ListingWindow) -> None:
            for entry in await self._window(window, area):
                if entry.path in written:
                    check_entry(area, written[entry.path], entry)

        await self._concurrency.together(
            self._check_paths(expected, area),
            self._concurrency.each(asked, check_window, at_most=WINDOWS_AT_ONCE),
        )

    async def held(self, area: StagingArea) -> Mapping[str, FileFacts]:
        staged = area.staged
        listed = pages(
            lambda after: self._objects.list_page(
                staged.repository, staged.branch, prefix=listing_prefix(area.prefix), after=after
            )
        )
        found: dict[str, FileFacts] = {}
        async for page in listed:
            for entry in page.items:
                path = relative_path(area.prefix, entry.path)
                if path:
                    # A checksum that is no MD5 differs from every file, so that file is sent again.
                    checksum = md5_of_checksum(entry.checksum) or entry.checksum
                    found[path] = FileFacts(path, checksum, entry.size)
        return found

    async def bring(
        self, directory: Path, held: Mapping[str, FileFacts], area: StagingArea
    ) -> tuple[Mapping[str, FileFacts], TransferCounts]:
        with disk_errors(directory):
            files = await self._concurrency.blocking(lambda: list(scan(directory)))
        for file in files:
            refuse_name(area.prefix, file.path)
        found = await hashed_files(
            self._concurrency, directory, files, threads_max=HASHING_THREADS_MAX
        )
        plan = plan_sync(held, found)
        # Never copied on the server: the source of a copy may be what this very plan overwrites,
        # because `held` is what the branch shows now and no commit.
        moved = tuple(facts for facts, _ in plan.copy)
        plan = replace(plan, upload=(*plan.upload, *moved), copy=())
        counts = await self.write(directory, lambda _: None, plan, area)
        unchanged = len(found) - len(plan.upload)
        return found, replace(counts, reused=unchanged)

    async def _check_paths(self, expected: Mapping[str, ChangeKind], area: StagingArea) -> None:
        staged = area.staged
        listed = pages(
            lambda after: self._commits.uncommitted_page(
                staged.repository, staged.branch, after=after
            )
        )
        found = {change.path: change.kind async for page in listed for change in page.items}
        for path in sorted(expected.keys() | found.keys()):
            if expected.get(path) != found.get(path):
                raise difference(area, path, expected.get(path), found.get(path))

    async def _window(self, window: ListingWindow, area: StagingArea) -> list[ObjectEntry]:
        listed = pages(
            lambda after: self._objects.list_page(
                area.staged.repository,
                area.staged.branch,
                prefix=window.prefix,
                after=after,
                amount=window.amount,
            ),
            after=window.after,
            upto=window.last,
        )
        return [entry async for page in listed for entry in page.items]


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


def _check_written(facts: FileFacts, answer: ObjectEntry, how: str) -> None:
    """Compare what the server says it holds with what was compared before."""
    md5 = md5_of_checksum(answer.checksum) or facts.checksum
    if (answer.size, md5) != (facts.size, facts.checksum):
        raise DamagedObjectError(
            f"{answer.path} was {how} with other bytes than were planned: expected"
            f" {facts.size} bytes with MD5 {facts.checksum}, found {answer.size} with {md5};"
            " nothing was published; a process of the task may still write to it"
        )


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
