"""The cache of this host as the pipeline takes it: contents and manifests over one store."""

from dataclasses import dataclass
from pathlib import Path

from perago.adapters.local.cache_store import CacheStore
from perago.adapters.local.content_cache import BYTES_MAX_DEFAULT, ContentCache
from perago.adapters.local.manifests import Manifests


@dataclass(frozen=True, slots=True)
class LocalCache:
    """Contents by checksum, and manifests of one lakeFS installation."""

    contents: ContentCache
    manifests: Manifests


def open_local_cache(
    directory: Path,
    installation: str,
    *,
    bytes_max: int = BYTES_MAX_DEFAULT,
    keeps_aside: bool = False,
) -> LocalCache:
    """The cache in a directory; nothing is touched before it is used."""
    store = CacheStore(directory)
    contents = ContentCache(store, bytes_max=bytes_max, keeps_aside=keeps_aside)
    return LocalCache(contents, Manifests(store, installation))
