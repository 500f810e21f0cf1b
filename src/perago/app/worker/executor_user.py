"""Whom executors run as (`PERAGO_EXECUTOR_USER`), and in which Python (`PERAGO_EXECUTOR_PYTHON`).

With a user of their own, the worker's user keeps its keys in files that task functions cannot read.
Both settings are checked before the first executor is started, and `HandedOverBody` hands the
workspaces over and takes them back. Starts no executor.
"""

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import final

from perago.app.settings.settings import Settings
from perago.domain.errors import RuntimeConfigError
from perago.ports.errors import LocalDiskError
from perago.ports.system import Concurrency
from perago.ports.task_body import BodyCall, BodyOutcome, CheckpointTerms, TaskBody

SETTING = "PERAGO_EXECUTOR_USER"
HOME_DIRECTORY = ".perago-executor-home"  # for users without a home, as in containers
# What the worker needs besides the switch itself: to give a workspace away and take it back, to
# read and remove what a body wrote with any mode, and to end executors. Numbers as in Linux.
CAPABILITIES = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
}
# Sockets and directories of the worker's user: another user gets "permission denied" from them.
PERSONAL_PREFIXES = ("XDG_", "DBUS_SESSION_", "SSH_AUTH_")
# Says by its exit code whether the user can enter the root, and prints what it may do.
_TRIAL = "import os, sys; os.chdir(sys.argv[1]); print(open('/proc/self/status').read())"
PYTHON_SETTING = "PERAGO_EXECUTOR_PYTHON"
# A Python on a network disk takes seconds for its first start; what never ends is no Python.
TRIAL_SECONDS = 30.0
PYTHON_MIN, PYDANTIC_MIN = (3, 11), (2, 12)  # what this package needs in the other Python too
# Prints both versions; a Python without pydantic says so by its error.
_VERSIONS = """import sys, importlib.metadata as m
print(*sys.version_info[:2], *m.version("pydantic").split(".")[:2])"""


@dataclass(frozen=True, slots=True)
class ExecutorUser:
    """The user that executors run as."""

    name: str
    uid: int
    gid: int
    home: Path

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of an executor: this user's home and name, not the worker's."""
        kept = {
            name: value
            for name, value in environment.items()
            if not name.startswith(PERSONAL_PREFIXES)
        }
        return kept | {"HOME": str(self.home), "USER": self.name, "LOGNAME": self.name}


def executor_user_of(settings: Settings) -> ExecutorUser | None:
    """The user that the settings name, or None when executors run as the worker's own."""
    if settings.executor_user is None:
        return None
    if settings.execution_mode == "thread":
        raise _refused(
            "in thread mode task functions run in the worker itself; use --execution-mode process"
        )
    return find_executor_user(settings.executor_user, settings.workspace_root)


def executor_python_of(settings: Settings) -> str | None:
    """The Python that the settings name for executors, refused when it cannot run them."""
    chosen = settings.executor_python
    if chosen is None:
        return None
    if settings.execution_mode == "thread":
        why = "in thread mode task functions run in the worker; use --execution-mode process"
        raise _refused_python(why)
    try:
        done = subprocess.run(  # noqa: S603 - the operator's choice
            [chosen, "-I", "-c", _VERSIONS],
            capture_output=True,
            text=True,
            timeout=TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refused_python(f"{chosen} does not start: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip().rpartition("\n")[2]
        raise _refused_python(f"expected Python 3.11 with pydantic in {chosen}, found {said}")
    major, minor, *pydantic = (int(each) for each in done.stdout.split())
    if (major, minor) < PYTHON_MIN or tuple(pydantic) < PYDANTIC_MIN:
        found = f"Python {major}.{minor} with pydantic {'.'.join(map(str, pydantic))}"
        why = f"expected Python 3.11 and pydantic 2.12 or newer in {chosen}, found {found}"
        raise _refused_python(why)
    return chosen


def _refused_python(why: str) -> RuntimeConfigError:
    return RuntimeConfigError(f"{PYTHON_SETTING}: {why}", code="PRG-C015")


def find_executor_user(chosen: str, root: Path) -> ExecutorUser:
    """The user of that name or number, refused when it would change nothing."""
    try:
        entry = pwd.getpwuid(int(chosen)) if chosen.isdecimal() else pwd.getpwnam(chosen)
    except KeyError:
        if not chosen.isdecimal():
            raise _refused(f"there is no user {chosen!r} on this machine") from None
        # A container image often has no entry for its user: the number is enough, also as the
        # group.
        user = ExecutorUser(chosen, int(chosen), int(chosen), root / HOME_DIRECTORY)
    else:
        home = Path(entry.pw_dir)
        is_own = home.is_dir() and home.stat().st_uid == entry.pw_uid
        home = home if is_own else root / HOME_DIRECTORY
        user = ExecutorUser(entry.pw_name, entry.pw_uid, entry.pw_gid, home)
    if user.uid == 0:
        raise _refused("root reads every file, so executors must not be root")
    if user.uid == os.geteuid():
        raise _refused(f"the worker itself runs as {user.name}")
    return user


def prepare_executor_user(user: ExecutorUser, root: Path) -> None:
    """Check that this process may use it, and open the way to the workspaces; raises if not."""
    if missing := _missing_capabilities():
        raise _refused(
            f"the worker may not switch users: it lacks {', '.join(missing)}; start it as root, or"
            f" with AmbientCapabilities={' '.join(CAPABILITIES)} in its systemd unit"
        )
    # Entering is enough: names of attempt directories stay the worker's, and each is private.
    root.chmod(root.stat().st_mode | 0o011)
    home = root / HOME_DIRECTORY
    if user.home == home:
        home.mkdir(mode=0o700, exist_ok=True)
        os.chown(home, user.uid, user.gid, follow_symlinks=False)
    _try_out(user, root)


def _try_out(user: ExecutorUser, root: Path) -> None:
    """Start Python as that user, enter the root, and look at what it may."""
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-I", "-S", "-c", _TRIAL, str(root.absolute())],
            user=user.uid,
            group=user.gid,
            extra_groups=[],
            env=user.environment({}),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise _refused(
            f"{user.name} cannot run {sys.executable} ({error.strerror}); install Python and Perago"
            " where every user can read them, for example below /opt"
        ) from error
    if done.returncode != 0:
        raise _refused(
            f"{user.name} cannot enter {root}; set PERAGO_WORKSPACE_ROOT to a directory whose"
            " parents every user can enter: mkdir -p -m 711 /var/lib/perago &&"
            " export PERAGO_WORKSPACE_ROOT=/var/lib/perago/workspaces"
        )
    if _capabilities_in(done.stdout):
        raise _refused(
            f"{sys.executable} has capabilities of its own, which executors would have too; start"
            " the worker as root instead, and run: setcap -r PATH_OF_THE_INTERPRETER"
        )


def _refused(why: str) -> RuntimeConfigError:
    return RuntimeConfigError(f"{SETTING}: {why}", code="PRG-C014")


def _missing_capabilities() -> list[str]:
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux: there only root may switch users
        return [] if os.geteuid() == 0 else list(CAPABILITIES)
    held = _capabilities_in(status.read_text(encoding="ascii", errors="replace"))
    return [name for name, number in CAPABILITIES.items() if not held >> number & 1]


def _capabilities_in(status: str) -> int:
    """Those in force, of a process with that text in /proc."""
    lines = [line for line in status.splitlines() if line.startswith("CapEff:")]
    return int(lines[0].split()[1], 16) if lines else 0


@final
class HandedOverBody(TaskBody):
    """Gives a workspace to the executors' user for the time of its body."""

    def __init__(self, beneath: TaskBody, user: ExecutorUser, concurrency: Concurrency) -> None:
        self._beneath = beneath
        self._user = user
        self._concurrency = concurrency

    async def run(self, call: BodyCall) -> BodyOutcome:
        """Hand the workspace over, run the body, take the workspace back."""
        directory = call.workspace
        if directory is None:
            return await self._beneath.run(call)
        if call.checkpoints is not None:
            # The copies of that user lie in a directory of that user, who could put a link to a
            # file of ours there while it is uploaded.
            terms = CheckpointTerms(refused="executors run as another user (PERAGO_EXECUTOR_USER)")
            call = replace(call, checkpoints=replace(call.checkpoints, terms=terms))
        try:
            await self._concurrency.blocking(lambda: hand_over(directory, self._user))
            outcome = await self._beneath.run(call)
            await self._concurrency.blocking(lambda: take_back(directory, self._user))
        except OSError as error:
            raise LocalDiskError(f"{directory}: {error}") from error
        return outcome


def hand_over(directory: Path, user: ExecutorUser) -> None:
    """Make a directory with all it holds the user's, the directory itself last.

    Until then it is ours alone, so that nothing in it can be replaced meanwhile.
    """
    for folder, folders, files, descriptor in os.fwalk(directory, topdown=False):
        del folder
        for name in (*folders, *files):
            os.chown(name, user.uid, user.gid, dir_fd=descriptor, follow_symlinks=False)
    os.chown(directory, user.uid, user.gid, follow_symlinks=False)


def take_back(directory: Path, user: ExecutorUser) -> None:
    """Make every directory ours again, from the top down; files stay the user's.

    A program that a body left behind may still run as that user. Once a directory is ours, it can
    put no link there that would have us read a file of ours, and publish it, in place of its own.
    """
    pending = [directory]
    while pending:
        folder = pending.pop()
        os.chown(folder, os.geteuid(), os.getegid(), follow_symlinks=False)
        folder.chmod(0o700)
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if S_ISDIR(status.st_mode):
                    pending.append(folder / entry.name)
                elif S_ISREG(status.st_mode) and status.st_uid != user.uid:
                    # A second name of a file elsewhere, which only we may be able to read.
                    raise LocalDiskError(
                        f"{folder / entry.name} belongs to the user {status.st_uid}, expected"
                        f" {user.name} ({user.uid}); write files instead of linking to them"
                    )
