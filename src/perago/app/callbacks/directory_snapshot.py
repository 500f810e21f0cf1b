"""What a directory holds at one moment: every file with its content, every link with its target.

For callbacks that move workspaces themselves, so that nothing but the directory tells a change.
"""

import hashlib
import os
from pathlib import Path

from perago.domain.reserved_paths import ATTEMPT_MARKER
from perago.domain.sync_plan import FileFacts


def snapshot(directory: Path) -> dict[str, FileFacts]:
    """Relative POSIX path -> facts, our marker and empty directories left out."""
    found: dict[str, FileFacts] = {}
    for parent, folders, names in os.walk(directory):
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in (*names, *links):
            path = Path(parent) / name
            if name != ATTEMPT_MARKER:
                facts = _facts(path, path.relative_to(directory).as_posix())
                found[facts.path] = facts
    return found


def _facts(path: Path, relative: str) -> FileFacts:
    if path.is_symlink():
        return FileFacts(relative, f"link to {path.readlink()}", 0)
    if not path.is_file():
        return FileFacts(relative, "neither file nor link", 0)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileFacts(relative, digest, path.stat().st_size)
