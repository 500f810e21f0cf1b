"""Compiles the one part of Perago that is C, where the machine has a compiler for it.

Without one the package is what it is with one, only slower at large objects, so a build never
fails for it; PERAGO_BUILD_MD5=0 leaves it out.
"""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = Path("src/perago/adapters/transfer")
SOURCE, LIBRARY = PLACE / "md5_lanes.c", PLACE / "_md5_lanes.so"
COMPILER_SECONDS_MAX = 120


class CompileMd5(BuildHookInterface[Any]):
    """Puts the library beside its source, and into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile for a wheel, editable ones included."""
        del version
        if self.target_name != "wheel":
            return
        library = Path(self.root) / LIBRARY
        library.unlink(missing_ok=True)
        if os.environ.get("PERAGO_BUILD_MD5") == "0":
            return
        refusal = compiled(Path(self.root) / SOURCE, library)
        if refusal:
            self.app.display_warning(f"large objects are digested one by one: {refusal}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append(f"/{LIBRARY}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"  # it is plain C and knows no Python


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
