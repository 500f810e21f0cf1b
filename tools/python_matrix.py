"""Rows of `make matrix`: the tests without servers on each Python that is declared.

The Python of the gate has its row there. Another one is that of the machine (on the PATH, or one
of pyenv's), else the one that a Go module brings: no index of Python packages has interpreters.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from perago_servers.cache import make_once
from perago_servers.go_programs import GO_ENVIRONMENT, go
from tools.lowest_direct import OTHER_ROWS, ROOT, environment, project, run_tests

# Its releases bring python-build-standalone for Go programs; these are the versions it has.
MODULE = "github.com/kluctl/go-embed-python"
RELEASES = {"3.14": "v0.0.0-3.14.6-20260610-1"}


def declared() -> list[str]:
    """Return the versions that the classifiers promise, in order."""
    marks = (line.rpartition(" :: ")[2] for line in project()["classifiers"])
    return [mark for mark in marks if mark.startswith("3.")]


def interpreter(version: str) -> str | None:
    """Return a Python of this version, or None if neither the machine nor the index has one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    own = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python"))]
    for each in own:
        if each is not None and version_of(each) == version:
            return each
    return embedded(version) if version in RELEASES else None


def version_of(python: str) -> str:
    """Return what an interpreter says it is; nothing if it does not start, as a bare shim."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    ran = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return ran.stdout.strip()


def embedded(version: str) -> str:
    """Return the Python of the Go module, unpacked in the user's cache."""

    def unpack(directory: Path) -> None:
        command = [go(), "mod", "download", "-json", f"{MODULE}@{RELEASES[version]}"]
        answer = subprocess.run(
            command, env={**os.environ, **GO_ENVIRONMENT}, capture_output=True, check=True
        )
        content = Path(json.loads(answer.stdout)["Dir"]) / "python" / "internal" / "data"
        for source in (content / "linux-amd64").rglob("*"):
            target = directory / source.relative_to(content / "linux-amd64")
            if source.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            elif source.suffix == ".gz":
                target = target.with_suffix("")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(gzip.decompress(source.read_bytes()))
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
        for program in (directory / "bin").iterdir():
            program.chmod(0o755)

    return str(make_once(f"python-{RELEASES[version]}", unpack) / "bin" / f"python{version}")


def main(versions: list[str]) -> int:
    """Test on each; the exit code is the worst one, and a Python that is not had is said."""
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    worst = 0
    own = "{}.{}".format(*sys.version_info[:2])  # the gate is its row
    for version in versions or [each for each in declared() if each != own]:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: not had, neither on this machine nor in the index")
            continue
        print(f"Python {version}: {python}", flush=True)
        worst = max(worst, run_tests(environment(f"python-{version}", pins, python), OTHER_ROWS))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
