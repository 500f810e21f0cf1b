"""What a commit holds under a prefix: from a listing, or from a manifest and the difference to it.

A manifest is what an earlier commit held, written down by this host. With it, the next commit costs
a question about the difference and not a listing of everything. Nothing is moved here.
"""

import contextlib
import json
import zlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from typing import cast, final

from perago.adapters.workspace.cache import CacheStore, CacheUnusableError
from perago.domain import paths
from perago.domain.lakefs import NO_METADATA, CommitId
from perago.ports.asking import pages
from perago.ports.errors import MissingError, RequestRefusedError, UnsafeNameError
from perago.ports.lakefs import Change, ChangeKind, Commits
from perago.ports.objects import LIST_AMOUNT_MAX, ObjectEntry, Objects, Page
from perago.ports.system import Concurrency
from perago.ports.workspace import WorkspaceSource

# Several commits of one workspace, because attempts of parallel branches take turns on a host. A
# manifest of 100,000 objects is a few megabytes, so there are not many.
MANIFESTS_PER_WORKSPACE_MAX = 4
MANIFESTS_MAX = 64  # those of 16 workspaces that are in use


@dataclass(frozen=True, slots=True)
class Inventory:
    """The business objects of a workspace in order of path, and what asking for them cost.

    `news` are the object paths that this host has not materialised as they are now; None when it
    may have materialised none of them.
    """

    prefix: str
    entries: Sequence[ObjectEntry]
    requests: int
    news: Collection[str] | None = None

    def names(self) -> list[str]:
        """The relative paths, in the order of the entries."""
        outer = len(paths.listing_prefix(self.prefix))
        return [entry.path[outer:] for entry in self.entries]


class WorkspaceTooLargeError(RequestRefusedError):
    """A workspace has more objects than one process is to move."""

    def __init__(self, source: WorkspaceSource, objects_max: int) -> None:
        super().__init__(
            f"{source.prefix} of {source.repository} has more than {objects_max} objects"
        )


@final
class Manifests:
    """Manifests of one installation; an unusable store has none."""

    def __init__(self, store: CacheStore, installation: str) -> None:
        self._store = store
        self._installation = installation

    def nearest(self, source: WorkspaceSource) -> tuple[CommitId, bytes] | None:
        """The manifest of this very commit, else the one used last for this workspace."""
        with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
            row: tuple[CommitId, bytes] | None = connection.execute(
                "SELECT commit_id, body FROM manifests WHERE workspace = ?"
                " ORDER BY commit_id = ? DESC, used DESC LIMIT 1",
                (self._workspace(source), source.commit),
            ).fetchone()
            return row
        return None

    def save(self, source: WorkspaceSource, entries: Sequence[ObjectEntry]) -> None:
        """Remember what a commit holds; the oldest ones go."""
        workspace, body = self._workspace(source), _written(entries)
        with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO manifests (workspace, commit_id, used, body)"
                " VALUES (?, ?, (SELECT COALESCE(MAX(used), 0) + 1 FROM manifests), ?)",
                (workspace, source.commit, body),
            )
            connection.execute(
                "DELETE FROM manifests WHERE workspace = ? AND commit_id NOT IN"
                " (SELECT commit_id FROM manifests WHERE workspace = ?"
                " ORDER BY used DESC LIMIT ?)",
                (workspace, workspace, MANIFESTS_PER_WORKSPACE_MAX),
            )
            connection.execute(
                "DELETE FROM manifests WHERE rowid NOT IN"
                " (SELECT rowid FROM manifests ORDER BY used DESC LIMIT ?)",
                (MANIFESTS_MAX,),
            )

    def _workspace(self, source: WorkspaceSource) -> str:
        return json.dumps([self._installation, source.repository, source.prefix])


@final
class Inventories:
    """Takes inventories; with manifests it asks for differences."""

    def __init__(
        self,
        objects: Objects,
        commits: Commits,
        concurrency: Concurrency,
        manifests: Manifests | None,
    ) -> None:
        self._objects = objects
        self._commits = commits
        self._concurrency = concurrency
        self._manifests = manifests
        self.objects_max: int | None = None

    async def take(self, source: WorkspaceSource) -> Inventory:
        """The business objects of a commit; raises when there are more than `objects_max`.

        A listing ends at the bound by itself. A manifest with its difference does not.
        """
        inventory = await self._from_manifest(source)
        if inventory is None:
            inventory = await take_inventory(
                self._objects, self._concurrency, source, objects_max=self.objects_max
            )
        if self.objects_max is not None and len(inventory.entries) > self.objects_max:
            raise WorkspaceTooLargeError(source, self.objects_max)
        return inventory

    def remember(self, source: WorkspaceSource, inventory: Inventory) -> None:
        """Write the manifest for the next attempt; blocks. Without requests it is there already."""
        if self._manifests is not None and inventory.requests:
            self._manifests.save(source, inventory.entries)

    async def _from_manifest(self, source: WorkspaceSource) -> Inventory | None:
        """What a manifest and the difference to it say; None when a listing has to say it."""
        manifests = self._manifests
        if manifests is None:
            return None
        known = await self._concurrency.blocking(lambda: manifests.nearest(source))
        if known is None:
            return None
        base, body = known
        if base == source.commit:
            held = await self._concurrency.blocking(lambda: _read(body))
            return None if held is None else Inventory(source.prefix, held, requests=0, news=())
        prefix = paths.listing_prefix(source.prefix)
        listed = pages(
            lambda after: self._commits.diff_page(
                source.repository, base, source.commit, prefix=prefix, after=after
            )
        )
        async with contextlib.aclosing(listed):
            try:
                # The server compares while this host reads.
                held, first = await self._concurrency.together(
                    self._concurrency.blocking(lambda: _read(body)), anext(listed)
                )
                return None if held is None else await _applied(source.prefix, held, first, listed)
            except MissingError:  # a commit is gone: the listing says which
                return None


async def _applied(
    prefix: str,
    held: Sequence[ObjectEntry],
    page: Page[Change],
    following: AsyncIterator[Page[Change]],
) -> Inventory | None:
    """Apply the difference; None when a listing costs no more, or the answer lacks facts."""
    changed: dict[str, ObjectEntry | None] = {}
    # From this many pages on, a listing of everything costs no more.
    pages_max = len(held) // LIST_AMOUNT_MAX + 1
    for requests in range(1, pages_max + 1):
        for change in page.items:
            is_gone = change.kind is ChangeKind.REMOVED
            if change.entry is None and not is_gone:
                return None
            changed[change.path] = None if is_gone else change.entry
        if not page.more:
            entries = [entry for entry in held if entry.path not in changed]
            now = (entry for entry in changed.values() if entry is not None)
            entries.extend(entry for _, entry in business_entries(prefix, now))
            entries.sort(key=attrgetter("path"))
            return Inventory(prefix, entries, requests, changed)
        if requests < pages_max:
            page = await anext(following)
    return None


async def take_inventory(
    objects: Objects,
    concurrency: Concurrency,
    source: WorkspaceSource,
    *,
    objects_max: int | None = None,
) -> Inventory:
    """List a workspace page by page; names are not checked."""
    entries: list[ObjectEntry] = []
    prefix = paths.listing_prefix(source.prefix)
    listed = pages(
        lambda after: objects.list_page(
            source.repository, source.commit, prefix=prefix, after=after
        )
    )

    async def take(page: Page[ObjectEntry]) -> None:
        entries.extend(entry for _, entry in business_entries(source.prefix, page.items))
        if objects_max is not None and len(entries) > objects_max:
            raise WorkspaceTooLargeError(source, objects_max)

    page, requests = await anext(listed, None), 0
    while page is not None:
        requests += 1
        # The next page is on its way while this one is read.
        page, _ = await concurrency.together(anext(listed, None), take(page))
    return Inventory(source.prefix, entries, requests)


def business_entries(
    prefix: str, entries: Iterable[ObjectEntry]
) -> Iterable[tuple[str, ObjectEntry]]:
    """The entries a task may see, each with its relative path."""
    outer = paths.listing_prefix(prefix)
    for entry in entries:
        path = entry.path
        if not path.startswith(outer) or paths.is_reserved_object(path):
            continue
        relative = path[len(outer) :]
        # The size first: nearly every object has one, and there are hundreds of thousands.
        if entry.size or not paths.is_directory_marker(relative, entry.size):
            yield relative, entry


def refuse_unsafe_names(repository: str, names: Sequence[str], rules: paths.NameRules) -> None:
    """Raise for the first name that cannot stand in lakeFS and on disk alike."""
    # One look at all names together is enough for nearly every workspace, and far faster.
    if not paths.are_plain(names, rules):
        for name in names:
            refuse_unsafe_name(repository, name, rules)
    clash = paths.collision(names, rules)
    if clash is not None:
        raise name_clash(repository, *clash)


def refuse_unsafe_name(repository: str, name: str, rules: paths.NameRules) -> None:
    """Raise for a name that cannot stand in lakeFS and on disk alike."""
    problem = paths.name_problem(name, rules)
    if problem is not None:
        raise UnsafeNameError(
            f"object {name!r} of {repository} {problem}; nothing was moved; rename it"
        )


def name_clash(repository: str, one: str, other: str) -> UnsafeNameError:
    """The error for two names that one directory cannot hold."""
    return UnsafeNameError(
        f"objects {one!r} and {other!r} of {repository} cannot both exist in one directory;"
        " nothing was moved; rename one of them"
    )


def columns_of(entries: Sequence[ObjectEntry]) -> dict[str, object]:
    """The entries as columns, because rows take five times as long to read and compress less."""
    columns: dict[str, object] = {
        name: [entry[number] for entry in entries]
        for number, name in enumerate(ObjectEntry._fields[:-1])
    }
    columns["described"] = {
        number: dict(entry.metadata) for number, entry in enumerate(entries) if entry.metadata
    }
    return columns


def entries_of(columns: Mapping[str, object]) -> list[ObjectEntry]:
    """The entries of columns that went through JSON; KeyError, TypeError, ... for other ones."""
    lists = cast("Mapping[str, list[object]]", columns)
    described = cast("dict[str, dict[str, str]]", columns["described"])
    rows = zip(*(lists[name] for name in ObjectEntry._fields[:-1]), repeat(NO_METADATA))
    entries = [ObjectEntry._make(row) for row in rows]
    for number, metadata in described.items():
        entries[int(number)] = entries[int(number)]._replace(metadata=metadata)
    return entries


def _written(entries: Sequence[ObjectEntry]) -> bytes:
    columns = json.dumps(columns_of(entries), separators=(",", ":"))
    return zlib.compress(columns.encode(), level=1)


def _read(body: bytes) -> list[ObjectEntry] | None:
    """The entries in order of path, None when they cannot be read; takes a while."""
    try:
        return entries_of(cast("dict[str, object]", json.loads(zlib.decompress(body))))
    except (zlib.error, ValueError, KeyError, TypeError, IndexError):
        return None
