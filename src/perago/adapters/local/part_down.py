"""One part of a large workspace on its way down: a stretch of a listing, some objects to files.

Runs where an engine puts it, beside other parts; owns the loop of its own thread. Which parts
there are, and what becomes of the rows, is not known here.
"""

import asyncio
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn, final

from perago.adapters.local.disk_errors import disk_errors
from perago.adapters.local.inventory import business_entries, name_clash, refuse_unsafe_name
from perago.domain.batches import batched
from perago.domain.key_ranges import KeyRange
from perago.domain.prefix_projection import (
    NameRules,
    folded_name,
    listing_prefix,
    object_path,
)
from perago.domain.workspace_rows import ListedObject, PlacedFile
from perago.ports.object_transport import Fetched, FetchOrder, ObjectTransport
from perago.ports.objects import ObjectEntry, Objects
from perago.ports.workspace_pipeline import WorkspaceSource

# Between two batches the server has nothing to do.
FETCHED_AT_ONCE = 20_000


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
        for one are left to whoever sees all of them.
        """
        with asyncio.Runner() as runner:
            after, previous = part.after, ""
            checks = rules is not None
            above = runner.run(self._files_before(source, part.after)) if checks else []
            while True:
                page = runner.run(
                    self._objects.list_page(
                        source.repository,
                        source.commit,
                        prefix=listing_prefix(source.prefix),
                        after=after,
                    )
                )
                mine = [entry for entry in page.entries if part.holds(entry.path)]
                for relative, entry in business_entries(source.prefix, mine):
                    if rules is not None:
                        refuse_unsafe_name(source.repository, relative, rules)
                        _refuse_folder(source.repository, relative, above)
                    yield _listed(relative, entry, rules, previous)
                    previous = relative
                if not page.more or len(mine) < len(page.entries):
                    return
                after = page.entries[-1].path

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

    def refuse_clash(self, source: WorkspaceSource, one: str, other: str) -> NoReturn:
        """Raise for two names that one directory cannot hold."""
        raise name_clash(source.repository, one, other)

    def fetch(
        self,
        source: WorkspaceSource,
        directory: Path,
        landing: Path,
        rows: Iterable[ListedObject],
    ) -> Iterator[PlacedFile]:
        """Bring objects to their files, by way of a landing place on the same disk.

        A part that was given up and still runs can place nothing once the landing place is gone.
        """
        made: set[str] = set()
        with disk_errors(landing):
            room = Path(tempfile.mkdtemp(dir=landing))
        with asyncio.Runner() as runner:
            for batch in batched(rows, FETCHED_AT_ONCE):
                orders = [
                    FetchOrder(_entry(source.prefix, row), f"{room}/{number}")
                    for number, row in enumerate(batch)
                ]
                fetched = runner.run(
                    self._transport.fetch(source.repository, source.commit, orders)
                )
                with disk_errors(directory):
                    for row, one in zip(batch, fetched, strict=True):
                        yield _placed(f"{directory}/", made, row, one)


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
