"""One worker for each workspace root: a lock that the operating system takes back.

A crash, an empty file or a reused process id blocks nobody. Says who holds it; what follows is
not decided here.
"""

import fcntl
import json
import os
import stat
from pathlib import Path
from typing import Self, final

from perago.domain.authoring_errors import RuntimeConfigError

LOCK_NAME = ".perago-supervisor.lock"
CREATED_OR_FOUND = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@final
class RootLock:
    """Held from entering to leaving, at the longest until this process ends."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / LOCK_NAME
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        """Take the lock, or raise with the process that holds it."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = self._opened()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise RuntimeConfigError(
                f"workspace root {self._root} is already locked by supervisor pid {self._holder()};"
                " use a different PERAGO_WORKSPACE_ROOT for each supervisor",
                code="PRG-C005",
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"supervisor_pid": os.getpid()}).encode())
        self._descriptor = descriptor
        return self

    def __exit__(self, *_: object) -> None:
        """Let it go; the file stays, since removing it could remove somebody else's."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def _opened(self) -> int:
        """The lock file, made if it is not there; never a file that another user pointed us to.

        What is opened here is emptied and written, so a link that someone else made would empty
        any file of this user.
        """
        try:
            descriptor = os.open(self._path, CREATED_OR_FOUND, 0o600)
        except OSError as error:
            raise self._refused(error.strerror or str(error)) from error
        status = os.fstat(descriptor)
        found = None
        if not stat.S_ISREG(status.st_mode):
            found = "it is not a regular file"
        elif status.st_uid != os.geteuid():
            found = f"it belongs to the user {status.st_uid}"
        elif status.st_nlink != 1:
            found = "it has a second name, a hard link"
        if found is not None:
            os.close(descriptor)
            raise self._refused(found)
        return descriptor

    def _refused(self, found: str) -> RuntimeConfigError:
        return RuntimeConfigError(
            f"the lock {self._path} cannot be used: {found}; expected a regular file of this user;"
            " set PERAGO_WORKSPACE_ROOT to a directory of your own, or remove the file if no worker"
            f" uses this root: rm {self._path}",
            code="PRG-C005",
        )

    def _holder(self) -> object:
        """Who wrote the file; nobody, when the holder has not come to it."""
        try:
            return json.loads(self._path.read_text(encoding="utf-8"))["supervisor_pid"]
        except (OSError, ValueError, KeyError, TypeError):
            return "unknown"
