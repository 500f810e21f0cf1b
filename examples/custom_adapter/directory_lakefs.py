"""A lakeFS in a directory: an adapter of a third party, selected by `PERAGO_LAKEFS=dir:///path`.

Rules of commits, merges and hooks are the in-memory lakeFS's; what is added is that every change
is on the disk before it is answered, so that another process finds it. One writer at a time.
"""

import os
import pickle
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlsplit

from perago.adapters.memory.installations import lakefs_installation
from perago.adapters.memory.lakefs import MemoryLakeFS
from perago.adapters.memory.system import WorkerHandle
from perago.app.connections import LakeFSConnection
from perago.ports.installations import LakeFSInstallation

FILE = "lakefs.state"
READS = ("read", "head", "list_page", "is_protected", "first_parents", "download")


def read_only(values: dict[object, object]) -> MappingProxyType[object, object]:
    """A view of a dictionary; pickle finds functions by their name, and this type not at all."""
    return MappingProxyType(values)


class StatePickler(pickle.Pickler):
    """Knows the one type in the state that pickle does not: a read-only view of a dictionary."""

    def reducer_override(self, value: object) -> Any:  # noqa: ANN401 - pickle's own protocol
        """Write a view as the dictionary behind it."""
        if isinstance(value, MappingProxyType):
            return read_only, (dict(cast("MappingProxyType[object, object]", value)),)
        return NotImplemented


class DirectoryStore:
    """The state of one lakeFS in one file that is replaced as a whole."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = directory / FILE
        self.lakefs = MemoryLakeFS()
        if self._file.exists():
            # As trusted as the program itself: whoever may write here owns the data.
            self.lakefs = cast("MemoryLakeFS", pickle.loads(self._file.read_bytes()))  # noqa: S301

    def save(self) -> None:
        """Replace the file in one step; a crash leaves the old one or the new one."""
        new = self._file.with_suffix(".new")
        with new.open("wb") as target:
            StatePickler(target).dump(self.lakefs)
            target.flush()
            os.fsync(target.fileno())
        new.replace(self._file)


class SavingPort:
    """A port whose calls are answered after their effect is on the disk."""

    def __init__(self, port: object, store: DirectoryStore) -> None:
        self._port = port
        self._store = store

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._port, verb)

        async def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - any port's
            try:
                return await method(*arguments, **options)
            finally:  # also when the answer is lost: the change has happened
                if verb not in READS:
                    self._store.save()

        return call


def installation_in(store: DirectoryStore, worker: WorkerHandle) -> LakeFSInstallation:
    """The ports of one worker over a store."""
    plain = lakefs_installation(store.lakefs, worker)
    ports: dict[str, Any] = {
        field.name: SavingPort(getattr(plain, field.name), store)
        for field in fields(plain)
        if field.name != "close"
    }
    return replace(plain, **ports)


def open_lakefs(connection: LakeFSConnection) -> LakeFSInstallation:
    """What the entry point names: the lakeFS in the directory of a `dir:` address."""
    return installation_in(DirectoryStore(Path(urlsplit(connection.url).path)), WorkerHandle())
