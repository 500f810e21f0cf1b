"""Which names the local file system folds together: tried once for each device."""

import os
import unicodedata
from pathlib import Path
from typing import final

from perago.domain.prefix_projection import NameRules

_PROBE = ".perago-probe-\u00e9"
_PATH_BYTES_MAX = 4095


@final
class NameProbe:
    """Remembers what each device does with case and Unicode normal forms."""

    def __init__(self) -> None:
        self._folds: dict[int, tuple[bool, bool]] = {}

    def rules(self, directory: Path) -> NameRules:
        """The rules for names below a directory."""
        device = directory.lstat().st_dev
        folds = self._folds.get(device)
        if folds is None:
            folds = self._folds[device] = _try_names(directory)
        room = _PATH_BYTES_MAX - len(os.fsencode(directory)) - 1
        return NameRules(folds_case=folds[0], folds_unicode=folds[1], path_bytes_max=room)


def _try_names(directory: Path) -> tuple[bool, bool]:
    probe = directory / _PROBE
    probe.touch(exist_ok=True)
    try:
        return (
            os.path.lexists(directory / _PROBE.upper()),
            os.path.lexists(directory / unicodedata.normalize("NFD", _PROBE)),
        )
    finally:
        probe.unlink()
