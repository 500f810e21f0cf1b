"""What one executor does with one part of a large workspace: list, fetch, look, hash, write, check.

A part runs wherever Spark puts it, beside other parts, and Spark may run it again. It owns the
event loop of its own thread. Which parts there are, and what becomes of their rows, is decided by
the jobs (`down_jobs`, `plan_jobs`, `up_jobs`).
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast, final

from perago.adapters.workspace.changes import lost_workspace, refuse_name, scan
from perago.adapters.workspace.disk import md5_of_file, name_rules
from perago.adapters.workspace.inventory import business_entries, name_clash, refuse_unsafe_name
from perago.adapters.workspace.staging import Staging, check_entry
from perago.domain.errors import ReadOnlyWorkspaceError, SparkPathError
from perago.domain.key_ranges import LAST_CHARACTER, KeyRange
from perago.domain.paths import NameRules, folded_name, listing_prefix, object_path
from perago.domain.sync_plan import (
    FileFacts,
    Folder,
    FoundFile,
    ListedObject,
    PlacedFile,
    PlanKind,
    PlannedChange,
    ReadFile,
    SeenChange,
    SyncPlan,
    WrittenBatch,
    batched,
)
from perago.ports.asking import pages
from perago.ports.errors import disk_errors
from perago.ports.lakefs import Commits
from perago.ports.objects import (
    LIST_AMOUNT_MAX,
    Fetched,
    FetchOrder,
    ObjectEntry,
    ObjectPage,
    Objects,
    ObjectTransport,
)
from perago.ports.workspace import SparkRoots, StagingArea, WorkspaceSource

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
class PartDown:
    """Lists and fetches; holds nothing of any workspace."""

    def __init__(self, objects: Objects, transport: ObjectTransport) -> None:
        self._objects = objects
        self._transport = transport

    def list_range(
        self, source: WorkspaceSource, rules: NameRules | None, part: KeyRange
    ) -> Iterator[ListedObject]:
        """The business objects of one range of keys; with rules, names are checked by them.

        Keys that begin alike follow each other, so that a file beside a folder of its name is
        found on the way; what stands before a range is asked for. Names that only the disk takes
        for one are found by `find_clash`, which sees the rows of all ranges.
        """
        with asyncio.Runner() as runner:
            previous = ""
            checks = rules is not None
            above = runner.run(self._files_before(source, part.after)) if checks else []
            listed = pages(
                lambda after: self._objects.list_page(
                    source.repository,
                    source.commit,
                    prefix=listing_prefix(source.prefix),
                    after=after,
                ),
                after=part.after,
                upto=part.upto,
            )
            for page in _each(runner, listed):
                mine = [entry for entry in page.entries if part.holds(entry.path)]
                for relative, entry in business_entries(source.prefix, mine):
                    if rules is not None:
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
            if page.entries and page.entries[0].path == path:
                found.append(path[outer:])
        return found

    def fetch(
        self,
        source: WorkspaceSource,
        directory: Path,
        incoming: Path,
        rows: Iterable[ListedObject],
    ) -> Iterator[PlacedFile]:
        """Bring objects to their files, by way of `incoming`, a directory on the same disk.

        A part that was given up and still runs can write nothing once `incoming` is gone.
        """
        made: set[str] = set()
        with disk_errors(incoming):
            own = Path(tempfile.mkdtemp(dir=incoming))  # two runs of one part may overlap
        with asyncio.Runner() as runner:
            for batch in batched(rows, FETCHED_AT_ONCE):
                orders = [
                    FetchOrder(_entry(source.prefix, row), f"{own}/{number}")
                    for number, row in enumerate(batch)
                ]
                fetched = runner.run(
                    self._transport.fetch(source.repository, source.commit, orders)
                )
                with disk_errors(directory):
                    for row, one in zip(batch, fetched, strict=True):
                        yield _placed(f"{directory}/", made, row, one)


@final
class PartScan:
    """Looks and reads; changes nothing."""

    def rules(self, directory: Path) -> NameRules:
        """What the disk of a directory can tell apart and hold."""
        with disk_errors(directory):
            return name_rules(directory)

    def identity(self, directory: Path) -> tuple[int, int]:
        """By what a directory is known again; raises when there is none."""
        try:
            status = directory.lstat()
        except OSError as error:
            raise lost_workspace(directory) from error
        return status.st_dev, status.st_ino

    def refuse_another(self, directory: Path, identity: tuple[int, int]) -> None:
        """Raise unless a directory is still the one with this identity."""
        if self.identity(directory) != identity:
            raise lost_workspace(directory)

    def folders(self, directory: Path, wanted: int) -> list[Folder]:
        """Cut a directory into folders that are looked through apart, about as many as wanted.

        Keeps folders only, however many files stand beside them. The scan refuses links.
        """
        cut: list[Folder] = []
        pending = [""]
        with disk_errors(directory):
            while pending and len(cut) + len(pending) < wanted:
                below: list[str] = []
                for folder in pending:
                    cut.append(Folder(folder, is_deep=False))
                    below.extend(_folders_in(directory, folder))
                pending = below
        return [*cut, *(Folder(folder, is_deep=True) for folder in pending)]

    def look(self, directory: Path, folder: Folder) -> Iterator[FoundFile]:
        """Every file of a folder with its stamp."""
        with disk_errors(directory):
            for file in scan(directory, folder.path, is_deep=folder.is_deep):
                yield FoundFile(file.path, *file.stamp)

    def read(self, directory: Path, prefix: str, rows: Iterable[ReadFile]) -> Iterator[ReadFile]:
        """Hash suspects; a name that may not be staged is refused."""
        for row in rows:
            refuse_name(prefix, row.path)
            file = directory / row.path
            with disk_errors(file):
                yield row._replace(md5=md5_of_file(file), size=file.lstat().st_size)


@final
class PartUp:
    """Writes, lists changes and checks; holds nothing of any attempt."""

    def __init__(self, objects: Objects, commits: Commits, staging: Staging) -> None:
        self._objects = objects
        self._commits = commits
        self._staging = staging

    def write(
        self, directory: Path, area: StagingArea, changes: Iterable[PlannedChange]
    ) -> Iterator[WrittenBatch]:
        """Bring changes onto the staging branch, some at a time."""
        with asyncio.Runner() as runner:
            for batch in batched(changes, WRITTEN_AT_ONCE):
                known = {row.path: _entry_of(row) for row in batch if row.content_type is not None}
                plan = _plan_of(batch)
                counts = runner.run(self._staging.write(directory, known.get, plan, area))
                yield WrittenBatch(counts.objects, counts.bytes, counts.reused, counts.requests)

    def changes(self, area: StagingArea, part: KeyRange) -> Iterator[SeenChange]:
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
                for change in page.changes:
                    if part.holds(change.path):
                        yield SeenChange(change.path, change.kind.value)

    def check(self, area: StagingArea, rows: Iterable[PlannedChange]) -> None:
        """Raise for the first object that is not as written; the rows are in order of path.

        A page is as long as the last ones were worth it: neighbours share one, a lone object is
        asked for alone. An object that is not there is found by the check of the changes.
        """
        amount = FIRST_AMOUNT
        with asyncio.Runner() as runner:
            wanted = _wanted(area.prefix, rows)
            path, facts = next(wanted, ("", None))
            while facts is not None:
                page = runner.run(self._page(area, path, amount))
                found = {entry.path: entry for entry in page.entries}
                last = page.entries[-1].path if page.entries and page.more else LAST_CHARACTER
                hits = 0
                while facts is not None and path <= last:
                    if path in found:
                        check_entry(area, facts, found[path])
                    hits += 1
                    path, facts = next(wanted, ("", None))
                amount = _next_amount(amount, hits)

    async def _page(self, area: StagingArea, path: str, amount: int) -> ObjectPage:
        return await self._objects.list_page(
            area.staged.repository,
            area.staged.branch,
            prefix="",
            after=_just_before(path),
            amount=amount,
        )


def _each(runner: asyncio.Runner, listed: AsyncIterator[Listed]) -> Iterator[Listed]:
    """Take the pages one by one: Spark reads the rows of a part without an event loop."""

    async def following() -> Listed | None:
        return await anext(listed, None)

    while (page := runner.run(following())) is not None:
        yield page


@dataclass(frozen=True, slots=True)
class PartWork:
    """Everything an executor can be asked for, on one lakeFS."""

    down: PartDown
    scan: PartScan
    up: PartUp


OpenPartWork = Callable[[], PartWork]
"""Gives the work of this process, the same one every time; it must survive pickling."""


def _listed(
    relative: str, entry: ObjectEntry, rules: NameRules | None, previous: str
) -> ListedObject:
    metadata = dict(entry.metadata)
    row = ListedObject(relative, entry.checksum, entry.size, entry.content_type, metadata)
    if rules is None or not (rules.folds_case or rules.folds_unicode):
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


def _entry(prefix: str, row: ListedObject) -> ObjectEntry:
    return ObjectEntry(object_path(prefix, row.path), row.checksum, row.size)


def _placed(outer: str, made: set[str], row: ListedObject, one: Fetched) -> PlacedFile:
    target = outer + row.path
    parent = row.path.rpartition("/")[0]
    if parent not in made:
        os.makedirs(outer + parent, exist_ok=True)  # noqa: PTH103 - all of this a million times
        made.add(parent)
    os.replace(one.order.where, target)  # noqa: PTH105 - as above
    stamp = os.lstat(target)
    return PlacedFile(
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


def _next_amount(amount: int, hits: int) -> int:
    if hits > 1:
        return min(LIST_AMOUNT_MAX, amount * AMOUNT_FACTOR)
    return max(1, amount // AMOUNT_FACTOR)


def _just_before(path: str) -> str:
    """A text before a path with hardly anything between the two."""
    code = ord(path[-1]) - 1
    if code < 0:  # nothing is less than NUL: the path without it stands right before
        return path[:-1]
    if code in _SURROGATES:
        code = _SURROGATES.start - 1
    return f"{path[:-1]}{chr(code)}{LAST_CHARACTER}"


def _wanted(prefix: str, rows: Iterable[PlannedChange]) -> Iterator[tuple[str, FileFacts]]:
    for row in rows:
        yield object_path(prefix, row.path), _facts(row)


def _plan_of(batch: list[PlannedChange]) -> SyncPlan:
    return SyncPlan(
        upload=tuple(_facts(row) for row in batch if row.kind == PlanKind.UPLOAD),
        copy=tuple(
            (_facts(row), cast("str", row.source)) for row in batch if row.kind == PlanKind.COPY
        ),
        delete=tuple(row.path for row in batch if row.kind == PlanKind.DELETE),
    )


def _facts(row: PlannedChange) -> FileFacts:
    return FileFacts(row.path, row.md5 or "", row.size or 0)


def _entry_of(row: PlannedChange) -> ObjectEntry:
    """What the object said of itself when it was materialised; a new file has no content type."""
    return ObjectEntry(
        row.path,
        row.md5 or "",
        row.size or 0,
        content_type=row.content_type or "",
        metadata=row.metadata or {},
    )


def input_uri(roots: SparkRoots, path: str) -> str:
    """What Spark opens at the input commit."""
    return f"{roots.input_root}{listing_prefix(roots.prefix)}{_inside(path)}"


def output_uri(roots: SparkRoots, path: str) -> str:
    """What Spark opens on the private branch."""
    inside = _inside(path)
    if roots.output_root is None:
        raise ReadOnlyWorkspaceError(path)
    return f"{roots.output_root}{listing_prefix(roots.prefix)}{inside}"


def _inside(path: str) -> str:
    """A trailing slash is fine; everything that could lead out is not.

    Hadoop reads what stands before a colon in the first segment as a scheme, such as `file:`. No
    object may have a backslash in its name (`name_problem`).
    """
    stripped = path.rstrip("/")
    segments = stripped.split("/")
    if (
        not stripped
        or "\\" in path
        or ":" in segments[0]
        or not {"", ".", ".."}.isdisjoint(segments)
    ):
        raise SparkPathError(path)
    return stripped
