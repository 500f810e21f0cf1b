"""The public perago 0.6.1 in an environment of its own, to run beside ours and compare.

Decides where it lies and that its libraries are those of constraints.txt. Reads none of its code.
"""

import shutil
import sys
import venv
from pathlib import Path

from perago_servers.cache import build_log, cache_root, locked, run_logged, say

REQUIREMENT = "perago==0.6.1"
CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"


def peer_environment() -> Path:
    """Return the environment, made on first use; its scripts know their place, so it stays there.

    The stamp holds the constraints it was made with: other versions of the libraries that both
    sides use would show as differences.
    """
    key = (
        f"peer-{REQUIREMENT.replace('==', '-')}-py{sys.version_info.major}.{sys.version_info.minor}"
    )
    place = cache_root() / key
    stamp = place / "constraints"
    wanted = CONSTRAINTS.read_bytes()
    with locked(key):
        if not stamp.exists() or stamp.read_bytes() != wanted:
            say(f"making {key} in {place.parent}")
            shutil.rmtree(place, ignore_errors=True)
            venv.create(place, with_pip=True)
            pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            command = [*pip, "-c", str(CONSTRAINTS), REQUIREMENT]
            run_logged(command, what=REQUIREMENT, log=build_log(key))
            stamp.write_bytes(wanted)
    return place


if __name__ == "__main__":
    print(peer_environment())
