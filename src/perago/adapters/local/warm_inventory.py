"""What a commit holds, from a manifest and the difference to it; a listing where that is dearer.

Decides which question is the cheaper one; checks no names.
"""

from collections.abc import Mapping
from typing import final

from perago.adapters.local.inventory import (
    Inventory,
    WorkspaceTooLargeError,
    business_entries,
    take_inventory,
)
from perago.adapters.local.manifests import Manifest, Manifests
from perago.domain.prefix_projection import listing_prefix
from perago.ports.commits import Change, ChangeKind, Commits
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
        if known is not None and known.commit == source.commit:
            entries = list(business_entries(source.prefix, known.entries))
            return Inventory(entries, requests=0, news=())
        inventory = None if known is None else await self._from_difference(source, known)
        if inventory is None:
            inventory = await self._listed(source)
        return inventory

    def remember(self, source: WorkspaceSource, inventory: Inventory) -> None:
        """Keep what was asked for, for the next one who takes it; blocks."""
        if self._manifests is not None and inventory.requests:
            self._manifests.save(source, [entry for _, entry in inventory.entries])

    async def _listed(self, source: WorkspaceSource) -> Inventory:
        return await take_inventory(self._objects, source, objects_max=self.objects_max)

    async def _from_difference(self, source: WorkspaceSource, known: Manifest) -> Inventory | None:
        """Apply the difference; None when a listing costs no more, or the answer lacks facts."""
        entries = {entry.path: entry for entry in known.entries}
        pages_max = len(entries) // LIST_AMOUNT_MAX + 1
        news: set[str] = set()
        after = ""
        for requests in range(1, pages_max + 1):
            try:
                page = await self._commits.diff_page(
                    source.repository,
                    known.commit,
                    source.commit,
                    prefix=listing_prefix(source.prefix),
                    after=after,
                )
            except MissingError:
                # Either commit may be gone; the listing says whether it is the asked one.
                return None
            if not all(_applied(entries, change) for change in page.changes):
                return None
            news.update(change.path for change in page.changes)
            if not page.more:
                return Inventory(_in_order(source.prefix, entries), requests, news)
            after = page.changes[-1].path
        return None


def _applied(entries: dict[str, ObjectEntry], change: Change) -> bool:
    if change.kind is ChangeKind.REMOVED:
        entries.pop(change.path, None)
    elif change.entry is None:
        return False
    else:
        entries[change.path] = change.entry
    return True


def _in_order(prefix: str, entries: Mapping[str, ObjectEntry]) -> list[tuple[str, ObjectEntry]]:
    return list(business_entries(prefix, (entries[path] for path in sorted(entries))))
