"""The user's cache: what is fetched or built once per user, shared by all clones.

Decides where things lie and that each is made by one process at a time and appears complete
or not at all. Must not know what the things are.
"""

import fcntl
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from perago_servers.errors import FetchError


def cache_root() -> Path:
    """Return the directory of this user, operating system and processor."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "perago" / f"{sys.platform}-{platform.machine()}"


@contextmanager
def locked(name: str) -> Generator[None]:
    """Hold the lock `name` of this user's cache; other processes wait."""
    locks = cache_root() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / f"{name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that makes {name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def is_made(key: str) -> bool:
    """Tell whether `key` is complete in the cache."""
    return (cache_root() / key).is_dir()


def make_once(key: str, make: Callable[[Path], None]) -> Path:
    """Return the directory `key`, filled by `make` unless it is there already.

    `make` gets an empty directory that is renamed into place when it returns. A rename is
    atomic, so the existence of the final name is the proof of completeness.
    """
    final = cache_root() / key
    if final.is_dir():
        return final
    with locked(key):
        if final.is_dir():
            return final
        say(f"making {key} in {final.parent}")
        partial = final.with_name(f"{key}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        make(partial)
        partial.rename(final)
    return final


def run_logged(
    command: Sequence[str],
    *,
    what: str,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a build command with its output in `log`; raise FetchError when it fails.

    Builds are nice: they often run beside the fast tests, on the same two cores.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        done = subprocess.run(
            ["nice", "-n", "10", *command],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        raise FetchError(
            what,
            found=f"`{command[0]}` ended with {done.returncode}",
            remedy="read the log, then run the fetch again",
            log=log,
        )


def build_log(name: str) -> Path:
    """Return a fresh log file for the build `name`; it outlives a failed build."""
    log = cache_root() / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    return log


def say(message: str) -> None:
    """Tell the person at the terminal what takes the time."""
    print(f"servers: {message}", file=sys.stderr, flush=True)
