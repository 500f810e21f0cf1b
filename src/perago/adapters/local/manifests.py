"""What commits held that this host has materialised: path, checksum, size and description.

Kept beside the cache, so that the next commit costs a question about the difference and not a
listing. Knows no server.
"""

import contextlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import cast, final

from perago.adapters.local.cache_store import CacheStore, CacheUnusableError
from perago.domain.references import NO_METADATA, CommitId
from perago.ports.objects import ObjectEntry
from perago.ports.workspace_pipeline import WorkspaceSource

MANIFESTS_PER_WORKSPACE_MAX = 4
MANIFESTS_MAX = 64


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one workspace held at one commit, as it was written down."""

    commit: CommitId
    body: bytes

    def entries(self) -> list[ObjectEntry] | None:
        """The business objects in order of path, None when they cannot be read; takes a while."""
        try:
            return _read(self.body)
        except (zlib.error, ValueError, KeyError, TypeError, IndexError):
            return None


@final
class Manifests:
    """Manifests of one installation; an unusable store has none."""

    def __init__(self, store: CacheStore, installation: str) -> None:
        self._store = store
        self._installation = installation

    def nearest(self, source: WorkspaceSource) -> Manifest | None:
        """The manifest of this very commit, else the one used last for this workspace."""
        with contextlib.suppress(CacheUnusableError), self._store.work() as connection:
            row = connection.execute(
                "SELECT commit_id, body FROM manifests WHERE workspace = ?"
                " ORDER BY commit_id = ? DESC, used DESC LIMIT 1",
                (self._workspace(source), source.commit),
            ).fetchone()
            if row is not None:
                return Manifest(CommitId(row[0]), row[1])
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


def _written(entries: Sequence[ObjectEntry]) -> bytes:
    """Columns: a fifth of the time of rows to read, and they compress better."""
    columns = {
        "path": [entry.path for entry in entries],
        "checksum": [entry.checksum for entry in entries],
        "size": [entry.size for entry in entries],
        "modified_at": [entry.modified_at for entry in entries],
        "content_type": [entry.content_type for entry in entries],
        "described": {
            number: dict(entry.metadata) for number, entry in enumerate(entries) if entry.metadata
        },
    }
    return zlib.compress(json.dumps(columns, separators=(",", ":")).encode(), level=1)


def _read(body: bytes) -> list[ObjectEntry]:
    columns = cast("dict[str, list[object]]", json.loads(zlib.decompress(body)))
    described = cast("dict[str, dict[str, str]]", columns["described"])
    listed = (columns[name] for name in ObjectEntry._fields[:-1])
    entries = [ObjectEntry._make(row) for row in zip(*listed, repeat(NO_METADATA), strict=False)]
    for number, metadata in described.items():
        entries[int(number)] = entries[int(number)]._replace(metadata=metadata)
    return entries
