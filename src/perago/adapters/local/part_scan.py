"""One part of a large workspace on the disk: what stands in some folders, what suspects hold.

Runs where an engine puts it; knows no server.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import final

from perago.adapters.local.comparison import lost_workspace, refuse_name
from perago.adapters.local.directory_scan import scan
from perago.adapters.local.disk_errors import disk_errors
from perago.adapters.local.name_probe import NameProbe
from perago.adapters.local.port_transport import md5_of_file
from perago.domain.prefix_projection import NameRules
from perago.domain.workspace_rows import Folder, FoundFile, ReadFile


@final
class PartScan:
    """Looks and reads; changes nothing."""

    def rules(self, directory: Path) -> NameRules:
        """What the disk of a directory can tell apart and hold."""
        with disk_errors(directory):
            return NameProbe().rules(directory)

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

        Keeps folders only, however many files stand beside them. Links are the scan's business.
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
            place = directory / row.path
            with disk_errors(place):
                yield row._replace(md5=md5_of_file(place), size=place.lstat().st_size)


def _folders_in(directory: Path, folder: str) -> Iterator[str]:
    outer = f"{folder}/" if folder else ""
    with os.scandir(directory / folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield outer + entry.name
