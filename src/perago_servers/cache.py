"""The user's cache: what is fetched or built once per user, shared by all clones.

Decides where things lie and that each is made by one process at a time and appears complete
or not at all. Programs that come inside a Python wheel are installed beside this, or in a virtual
environment of the cache. Must not know what the things are.
"""

import fcntl
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

LOG_LINES_SHOWN = 40  # a Java stack trace with its first cause


class FetchError(Exception):
    """Something could not be fetched or built; `log` has all the output."""

    def __init__(self, what: str, *, found: str, remedy: str, log: Path | None = None) -> None:
        """Keep the facts and add the end of the log to the message."""
        self.what = what
        self.found = found
        self.remedy = remedy
        self.log = log
        shown = "" if log is None else f"\n--- last lines of {log}\n{last_lines(log)}"
        super().__init__(f"cannot provide {what}: {found}; {remedy}{shown}")


def last_lines(log: Path, lines: int = LOG_LINES_SHOWN) -> str:
    """Return the end of a log, or say that there is none."""
    if not log.exists():
        return f"(no log at {log})"
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


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
