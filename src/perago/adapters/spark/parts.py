"""What one executor does with one part of a large workspace: list, fetch, look, hash, write, check.

A part runs wherever Spark puts it, beside other parts, and Spark may run it again. It owns the
event loop of its own thread. Which parts there are, and what becomes of their rows, is decided by
the jobs (`workspace_pipeline` and `plan`).
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar, cast, final

from perago.adapters.workspace.changes import lost_workspace, refuse_name, scan
from perago.adapters.workspace.disk import md5_of_file
from perago.adapters.workspace.inventory import business_entries, name_clash, refuse_unsafe_name
from perago.adapters.workspace.staging import Staging, check_entry
from perago.domain import sync_plan
from perago.domain.key_ranges import LAST_CHARACTER, KeyRange, NextKey
from perago.domain.paths import NameRules, folded_name, listing_prefix, object_path
from perago.ports.asking import pages
from perago.ports.errors import disk_errors
from perago.ports.installations import LakeFSInstallation
from perago.ports.lakefs import Change
from perago.ports.objects import LIST_AMOUNT_MAX, Fetched, FetchOrder, ObjectEntry, Objects
from perago.ports.system import Concurrency
from perago.ports.workspace import StagingArea, TransferCounts, WorkspaceSource

# One transfer is at most this long, because its orders are in memory. Between two transfers the
# server has nothing to do, so it is not shorter.
FETCHED_AT_ONCE = 20_000
WRITTEN_AT_ONCE = 1000  # one full request of deletions
# How many entries the check of written objects asks for. It begins small, because a changed object
# may stand alone among thousands that were left as they were.
FIRST_AMOUNT = 8
# The amount grows after an answer with several wanted objects, and shrinks after any other. By 4 it
# is at a full answer of 1,000 after four of them.
AMOUNT_FACTOR = 4
_SURROGATES = range(0xD800, 0xE000)  # no UTF-8 text can hold one, so no request can either
Listed = TypeVar("Listed")


@final
class PartWork:
    """What an executor asks of one lakeFS; holds nothing of any workspace or attempt."""

    def __init__(self, lakefs: LakeFSInstallation, concurrency: Concurrency) -> None:
        self._objects, self._commits = lakefs.objects, lakefs.commits
        self._transport = lakefs.transport(concurrency)
        self._staging = Staging(self._objects, self._commits, self._transport, concurrency)

    def list_range(
        self, source: WorkspaceSource, rules: NameRules, part: KeyRange
    ) -> Iterator[sync_plan.ListedObject]:
        """The business objects of one range of keys; their names are checked by the rules.

        Keys that begin alike follow each other, so that a file beside a folder of its name is
        found on the way; what stands before a range is asked for. Names that only the disk takes
        for one are found by `find_clash`, which sees the rows of all ranges.
        """
        with asyncio.Runner() as runner:
            previous = ""
            above = runner.run(self._files_before(source, part.after))
            for mine in _each(runner, entries_of(self._objects, source, part)):
                for relative, entry in business_entries(source.prefix, mine):
                    refuse_unsafe_name(source.repository, relative, rules)
                    _refuse_folder(source.repository, relative, above)
                    yield _listed(relative, entry, rules, previous)
                    previous = relative

    async def _files_before(self, source: WorkspaceSource, after: str) -> list[str]:
        """Objects up to a key that may bear the name of a folder of the keys after it."""
        found: list[str] = []
        outer = len(listing_prefix(source.prefix))
        for end in range(outer + 1, len(after) + 1):
            path = after[:end]
            if end < len(after) and after[end] > "/":
                continue  # whatever is below a folder of this name comes before the key
            page = await self._objects.list_page(
                source.repository, source.commit, prefix=path, amount=1
            )
            if page.items and page.items[0].path == path:
                found.append(path[outer:])
        return found

    def fetch(
        self,
        source: WorkspaceSource,
        directory: Path,
        incoming: Path,
        rows: Iterable[sync_plan.ListedObject],
    ) -> Iterator[sync_plan.PlacedFile]:
        """Bring objects to their files, by way of `incoming`, a directory on the same disk.

        A part that was given up and still runs can write nothing once `incoming` is gone.
        """
        made: set[str] = set()
        with disk_errors(incoming):
            own = Path(tempfile.mkdtemp(dir=incoming))  # two runs of one part may overlap
        with asyncio.Runner() as runner:
            for batch in sync_plan.batched(rows, FETCHED_AT_ONCE):
                orders = [
                    FetchOrder(
                        ObjectEntry(object_path(source.prefix, row.path), row.checksum, row.size),
                        f"{own}/{number}",
                    )
                    for number, row in enumerate(batch)
                ]
                fetched = runner.run(
                    self._transport.fetch(source.repository, source.commit, orders)
                )
                with disk_errors(directory):
                    for row, one in zip(batch, fetched, strict=True):
                        yield _placed(f"{directory}/", made, row, one)

    def write(
        self, directory: Path, area: StagingArea, changes: Iterable[sync_plan.PlannedChange]
    ) -> Iterator[TransferCounts]:
        """Bring changes onto the staging branch, some at a time."""
        with asyncio.Runner() as runner:
            for batch in sync_plan.batched(changes, WRITTEN_AT_ONCE):
                known = {row.path: _entry_of(row) for row in batch if row.content_type is not None}
                plan = _plan_of(batch)
                yield runner.run(self._staging.write(directory, known.get, plan, area))

    def changes(self, area: StagingArea, part: KeyRange) -> Iterator[Change]:
        """The uncommitted paths of one range."""
        with asyncio.Runner() as runner:
            listed = pages(
                lambda after: self._commits.uncommitted_page(
                    area.staged.repository, area.staged.branch, after=after
                ),
                after=part.after,
                upto=part.upto,
            )
            for page in _each(runner, listed):
                yield from (change for change in page.items if part.holds(change.path))

    def check(self, area: StagingArea, rows: Iterable[sync_plan.PlannedChange]) -> None:
        """Raise for the first object that is not as written; the rows are in order of path.

        A page is as long as the last ones were worth it: neighbours share one, a lone object is
        asked for alone. An object that is not there is found by the check of the changes.
        """
        amount = FIRST_AMOUNT
        with asyncio.Runner() as runner:
            wanted = ((object_path(area.prefix, row.path), _facts(row)) for row in rows)
            path, facts = next(wanted, ("", None))
            while facts is not None:
                page = runner.run(
                    self._objects.list_page(
                        area.staged.repository,
                        area.staged.branch,
                        prefix="",
                        after=_just_before(path),
                        amount=amount,
                    )
                )
                found = {entry.path: entry for entry in page.items}
                last = page.last if page.more else LAST_CHARACTER
                hits = 0
                while facts is not None and path <= last:
                    if path in found:
                        check_entry(area, facts, found[path])
                    hits += 1
                    path, facts = next(wanted, ("", None))
                wider = min(LIST_AMOUNT_MAX, amount * AMOUNT_FACTOR)
                amount = wider if hits > 1 else max(1, amount // AMOUNT_FACTOR)


async def entries_of(
    objects: Objects, source: WorkspaceSource, part: KeyRange
) -> AsyncIterator[list[ObjectEntry]]:
    """The objects of one range of keys, page by page."""
    prefix = listing_prefix(source.prefix)
    listed = pages(
        lambda after: objects.list_page(
            source.repository, source.commit, prefix=prefix, after=after
        ),
        after=part.after,
        upto=part.upto,
    )
    async for page in listed:
        yield [entry for entry in page.items if part.holds(entry.path)]


def key_finder(objects: Objects, source: WorkspaceSource) -> NextKey:
    """Asks for the first key of a listing after a text."""

    async def next_key(after: str) -> str | None:
        page = await objects.list_page(
            source.repository,
            source.commit,
            prefix=listing_prefix(source.prefix),
            after=after,
            amount=1,
        )
        return page.items[0].path if page.items else None

    return next_key


def _each(runner: asyncio.Runner, listed: AsyncIterator[Listed]) -> Iterator[Listed]:
    """Take the pages one by one: Spark reads the rows of a part without an event loop."""

    async def following() -> Listed | None:
        return await anext(listed, None)

    while (page := runner.run(following())) is not None:
        yield page


OpenPartWork = Callable[[], PartWork]
"""Gives the work of this process, the same one every time; it must survive pickling."""


def workspace_identity(directory: Path) -> tuple[int, int]:
    """By what a directory is known again; raises when there is none."""
    try:
        status = directory.lstat()
    except OSError as error:
        raise lost_workspace(directory) from error
    return status.st_dev, status.st_ino


def folders_of(directory: Path, wanted: int) -> list[sync_plan.Folder]:
    """Cut a directory into folders that are looked through apart, about as many as wanted.

    Keeps folders only, however many files stand beside them. The scan refuses links.
    """
    cut: list[sync_plan.Folder] = []
    pending = [""]
    with disk_errors(directory):
        while pending and len(cut) + len(pending) < wanted:
            below: list[str] = []
            for folder in pending:
                cut.append(sync_plan.Folder(folder, is_deep=False))
                below.extend(_folders_in(directory, folder))
            pending = below
    return [*cut, *(sync_plan.Folder(folder, is_deep=True) for folder in pending)]


def files_of(directory: Path, folder: sync_plan.Folder) -> Iterator[sync_plan.FoundFile]:
    """Every file of a folder with its stamp."""
    with disk_errors(directory):
        for file in scan(directory, folder.path, is_deep=folder.is_deep):
            yield sync_plan.FoundFile(file.path, *file.stamp)


def content_of(directory: Path, prefix: str, path: str) -> tuple[str, int]:
    """MD5 and size of a file; a name that may not be staged is refused."""
    refuse_name(prefix, path)
    file = directory / path
    with disk_errors(file):
        return md5_of_file(file), file.lstat().st_size


def _listed(
    relative: str, entry: ObjectEntry, rules: NameRules, previous: str
) -> sync_plan.ListedObject:
    metadata = dict(entry.metadata)
    row = sync_plan.ListedObject(relative, entry.checksum, entry.size, entry.content_type, metadata)
    if not (rules.folds_case or rules.folds_unicode):
        return row
    fresh = {
        folder: folded_name(folder, rules)
        for folder in _folders_above(relative)
        if not previous.startswith(f"{folder}/")
    }
    return row._replace(folded=folded_name(relative, rules), folders=fresh)


def _folders_above(relative: str) -> Iterator[str]:
    folder = relative.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _refuse_folder(repository: str, relative: str, above: list[str]) -> None:
    """Raise when a path goes through a file; `above` are the files it begins like."""
    while above and not relative.startswith(above[-1]):
        above.pop()
    for file in above:
        if relative.startswith(f"{file}/"):
            raise name_clash(repository, file, relative)
    above.append(relative)


def _placed(
    outer: str, made: set[str], row: sync_plan.ListedObject, one: Fetched
) -> sync_plan.PlacedFile:
    target = outer + row.path
    parent = row.path.rpartition("/")[0]
    if parent not in made:
        os.makedirs(outer + parent, exist_ok=True)  # noqa: PTH103 - all of this a million times
        made.add(parent)
    os.replace(one.order.where, target)  # noqa: PTH105 - as above
    stamp = os.lstat(target)
    return sync_plan.PlacedFile(
        row.path,
        stamp.st_size,
        stamp.st_mtime_ns,
        stamp.st_ctime_ns,
        stamp.st_ino,
        one.md5,
        row.content_type,
        row.metadata,
    )


def _folders_in(directory: Path, folder: str) -> Iterator[str]:
    outer = f"{folder}/" if folder else ""
    with os.scandir(directory / folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield outer + entry.name


def _just_before(path: str) -> str:
    """A text before a path with hardly anything between the two."""
    code = ord(path[-1]) - 1
    if code < 0:  # nothing is less than NUL: the path without it stands right before
        return path[:-1]
    if code in _SURROGATES:
        code = _SURROGATES.start - 1
    return f"{path[:-1]}{chr(code)}{LAST_CHARACTER}"


def _plan_of(batch: list[sync_plan.PlannedChange]) -> sync_plan.SyncPlan:
    return sync_plan.SyncPlan(
        upload=tuple(_facts(row) for row in batch if row.kind == sync_plan.PlanKind.UPLOAD),
        copy=tuple(
            (_facts(row), cast("str", row.source))
            for row in batch
            if row.kind == sync_plan.PlanKind.COPY
        ),
        delete=tuple(row.path for row in batch if row.kind == sync_plan.PlanKind.DELETE),
    )


def _facts(row: sync_plan.PlannedChange) -> sync_plan.FileFacts:
    return sync_plan.FileFacts(row.path, row.md5 or "", row.size or 0)


def _entry_of(row: sync_plan.PlannedChange) -> ObjectEntry:
    """What the object said of itself when it was materialised; a new file has no content type."""
    return ObjectEntry(
        row.path,
        row.md5 or "",
        row.size or 0,
        content_type=row.content_type or "",
        metadata=row.metadata or {},
    )
