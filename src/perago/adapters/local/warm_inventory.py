"""What a commit holds, from a manifest and the difference to it; a listing where that is dearer.

Decides which question is the cheaper one; checks no names.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import final

from perago.adapters.local.inventory import (
    Inventory,
    WorkspaceTooLargeError,
    business_entries,
    take_inventory,
)
from perago.adapters.local.manifests import Manifest, Manifests
from perago.domain.prefix_projection import listing_prefix
from perago.domain.references import CommitId
from perago.ports.commits import Change, ChangeKind, ChangePage, Commits
from perago.ports.concurrency import Concurrency
from perago.ports.errors import MissingError
from perago.ports.objects import LIST_AMOUNT_MAX, ObjectEntry, Objects
from perago.ports.workspace_pipeline import WorkspaceSource


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
        """The business objects of a commit; raises when there are more than `objects_max`."""
        inventory = await self._taken(source)
        if self.objects_max is not None and len(inventory.entries) > self.objects_max:
            raise WorkspaceTooLargeError(source, self.objects_max)
        return inventory

    async def _taken(self, source: WorkspaceSource) -> Inventory:
        manifests = self._manifests
        if manifests is None:
            return await self._listed(source)
        known = await self._concurrency.blocking(lambda: manifests.nearest(source))
        inventory = None if known is None else await self._from_manifest(source, known)
        return await self._listed(source) if inventory is None else inventory

    def remember(self, source: WorkspaceSource, inventory: Inventory) -> None:
        """Keep what was asked for, for the next one who takes it; blocks."""
        if self._manifests is not None and inventory.requests:
            self._manifests.save(source, inventory.entries)

    async def _listed(self, source: WorkspaceSource) -> Inventory:
        return await take_inventory(
            self._objects, self._concurrency, source, objects_max=self.objects_max
        )

    async def _from_manifest(self, source: WorkspaceSource, known: Manifest) -> Inventory | None:
        """What a manifest and the difference to it say; None when a listing has to say it."""
        if known.commit == source.commit:
            held = await self._concurrency.blocking(known.entries)
            if held is None:
                return None
            return Inventory(source.prefix, held, requests=0, news=())
        # The server compares while this host reads.
        held, page = await self._concurrency.together(
            self._concurrency.blocking(known.entries),
            self._changes(source, known.commit, after=""),
        )
        return None if held is None else await self._applied(source, known.commit, held, page)

    async def _applied(
        self,
        source: WorkspaceSource,
        base: CommitId,
        held: Sequence[ObjectEntry],
        page: ChangePage | None,
    ) -> Inventory | None:
        """Apply the difference; None when a listing costs no more, or the answer lacks facts."""
        changed: dict[str, ObjectEntry | None] = {}
        pages_max = len(held) // LIST_AMOUNT_MAX + 1
        requests = 1
        while page is not None and all(_taken(changed, change) for change in page.changes):
            if not page.more:
                entries = _merged(source.prefix, held, changed)
                return Inventory(source.prefix, entries, requests, changed)
            if requests == pages_max:
                return None
            requests += 1
            page = await self._changes(source, base, after=page.changes[-1].path)
        return None

    async def _changes(
        self, source: WorkspaceSource, base: CommitId, *, after: str
    ) -> ChangePage | None:
        """One page of the difference; None when a commit is gone: the listing says which."""
        try:
            return await self._commits.diff_page(
                source.repository,
                base,
                source.commit,
                prefix=listing_prefix(source.prefix),
                after=after,
            )
        except MissingError:
            return None


def _taken(changed: dict[str, ObjectEntry | None], change: Change) -> bool:
    """Note what became of one object; False when the answer does not tell."""
    changed[change.path] = None if change.kind is ChangeKind.REMOVED else change.entry
    return change.kind is ChangeKind.REMOVED or change.entry is not None


def _merged(
    prefix: str, held: Sequence[ObjectEntry], changed: Mapping[str, ObjectEntry | None]
) -> list[ObjectEntry]:
    """What was held, with what became of it, in order of path; a manifest is in order."""
    fresh = business_entries(prefix, (entry for entry in changed.values() if entry is not None))
    entries = [entry for entry in held if entry.path not in changed]
    entries.extend(entry for _, entry in fresh)
    entries.sort(key=attrgetter("path"))
    return entries
