"""What the Spark pipeline keeps of a workspace: a directory of tables beside the workspaces.

On the file system that workers and executors share. What belongs to a workspace that is gone is
removed by the next one.
"""

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import final

OWNER = "workspace"


@final
class PipelineState:
    """The tables of one workspace."""

    def __init__(self, root: Path, directory: Path) -> None:
        digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]
        self._root = root
        self._directory = directory
        self.place = root / f"{directory.name}-{digest}"

    @property
    def inventory(self) -> Path:
        """What the commit holds."""
        return self.place / "inventory"

    @property
    def index(self) -> Path:
        """What was materialised."""
        return self.place / "index"

    @property
    def changes(self) -> Path:
        """What the comparison found, in no order."""
        return self.place / "changes"

    @property
    def plan(self) -> Path:
        """What has to move."""
        return self.place / "plan"

    @property
    def landing(self) -> Path:
        """Where objects arrive, as long as objects may."""
        return self.place / "landing"

    def create(self) -> None:
        """Make room, and remove what belongs to workspaces that are no more."""
        self._root.mkdir(parents=True, exist_ok=True)
        _sweep(self._root)
        self.remove()
        self.landing.mkdir(parents=True)
        (self.place / OWNER).write_text(os.fspath(self._directory), encoding="utf-8")

    def empty(self, place: Path) -> None:
        """Make room for a table that may have been written before."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()

    def close_landing(self) -> None:
        """From here on nothing arrives: whoever still runs finds no place to rename from."""
        closed = self.landing.rename(self.place / "landed")
        shutil.rmtree(closed, ignore_errors=True)

    def remove(self) -> None:
        """Forget all of it."""
        shutil.rmtree(self.place, ignore_errors=True)


def _sweep(root: Path) -> None:
    for owner in root.glob(f"*/{OWNER}"):
        with suppress(OSError):
            if not Path(owner.read_text(encoding="utf-8")).exists():
                shutil.rmtree(owner.parent, ignore_errors=True)
