"""Compiles the one part of Perago that is C, where the machine has a compiler for it.

Without one the package is what it is with one, only slower at large objects, so a build never
fails for it; PERAGO_BUILD_MD5=0 leaves it out.
"""

import os
import shlex
import subprocess
import sysconfig
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "perago/adapters/transfer"
PLACE = Path("src") / PACKAGE
SOURCE, LIBRARY = "md5_lanes.c", "_md5_lanes.so"
COMPILER_SECONDS_MAX = 120


class CompileMd5(BuildHookInterface[Any]):
    """Puts the library into the wheel, or beside its source."""

    _scratch: "TemporaryDirectory[str] | None" = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile for a wheel into a scratch place, for an editable one beside the source."""
        in_place = Path(self.root) / PLACE / LIBRARY
        is_editable = version == "editable"
        if is_editable:
            with suppress(OSError):
                in_place.unlink(missing_ok=True)
        if os.environ.get("PERAGO_BUILD_MD5") == "0":
            return
        self._scratch = TemporaryDirectory()
        library = in_place if is_editable else Path(self._scratch.name) / LIBRARY
        refusal = compiled(Path(self.root) / PLACE / SOURCE, library)
        if refusal:
            self.app.display_warning(f"large objects are digested one by one: {refusal}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        if not is_editable:
            build_data["force_include"][str(library)] = f"{PACKAGE}/{LIBRARY}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"  # it is plain C and knows no Python

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The library is in the wheel."""
        del version, build_data, artifact_path
        if self._scratch is not None:
            self._scratch.cleanup()


def compiled(source: Path, library: Path) -> str:
    """Compile one file to a shared library; why not, or nothing."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    line = [*compiler, "-O3", "-fPIC", "-shared", "-o", str(library), str(source)]
    try:
        done = subprocess.run(  # noqa: S603 - the compiler that the builder has chosen
            line, capture_output=True, text=True, check=False, timeout=COMPILER_SECONDS_MAX
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return (done.stderr or f"exit code {done.returncode}") if done.returncode else ""
