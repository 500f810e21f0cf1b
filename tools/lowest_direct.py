"""A row of `make matrix`: the tests without servers on the oldest versions that Perago allows.

Executors run the code of teams, whose own pins are older than ours. So each lower bound of
pyproject.toml is a promise, and this installs exactly the bounds in an environment of the user's
cache. What the bounds need themselves is whatever pip finds newest, as it is for a user.
"""

import hashlib
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perago_servers.cache import build_log, cache_root, locked, run_logged

ROOT = Path(__file__).parent.parent
PYSPARK = "pyspark"  # each of its versions has a row of its own: tools/spark_matrix.py
# typer before 0.26 imports names that click 8.5 warns of, and a warning ends a test. Users see
# nothing of it, so the bound of typer stays.
BESIDE = {"click": "8.3.0"}
TEST_TOOLS = ("jsonschema", "markdown-it-py", "packaging", "pytest-randomly", "pytest-timeout")
TEST_TOOLS_TOO = ("pytest-xdist", "sybil", "lakefs-sdk")
# Two runs: tests of processes and of time that passes do not share a processor well.
RUNS = (("tests/unit", "-n2"), ("tests/contract",))
WITHOUT = "not (lakefs or conductor or spark or soak or simulation or scale or browser)"
# Tests of another pyspark have rows of their own, and others are about the pins of the gate.
OTHER_ROWS = (
    "--ignore=tests/unit/adapters/spark",
    "--ignore=tests/unit/tools",
    "--ignore=tests/unit/test_dependencies.py",
    "--ignore=tests/unit/test_licences.py",
    "--ignore=tests/unit/app/test_pipeline_parts.py",
    "--deselect=tests/unit/testing/test_demo.py",
)


def bounds(package: Mapping[str, Any]) -> dict[str, str]:
    """Return the lowest version of every direct dependency, without pyspark's."""
    extras: Mapping[str, list[str]] = package["optional-dependencies"]
    listed = [*package["dependencies"], *extras["openlineage"], *extras["otel"]]
    listed += extras["testing"]
    found: dict[str, str] = {}
    for requirement in listed:
        name, separator, version = requirement.partition(">=")
        if not separator:
            raise ValueError(f"expected a lower bound such as `name>=1.2`, found {requirement!r}")
        found[name] = version.partition(",")[0]
    return found


def project() -> Mapping[str, Any]:
    """Return what pyproject.toml says of the package."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    table: Mapping[str, Any] = found["project"]
    return table


def constraints() -> str:
    """Return a file of constraints that pins every bound."""
    pins = {**bounds(project()), **BESIDE}
    return "".join(f"{name}=={version}\n" for name, version in pins.items())


def environment(name: str, text: str, interpreter: str = sys.executable) -> Path:
    """Return a virtual environment with what the direct dependencies are under constraints.

    It is made on first use, and has no Perago.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    key = f"{name}-{digest}"
    place = cache_root() / key
    stamp = place / "complete"
    with locked(key):
        if not stamp.exists():
            log = build_log(key)
            made = [interpreter, "-m", "venv", "--clear", "--without-pip", str(place)]
            run_logged(made, what=key, log=log)
            file = place / "constraints.txt"
            file.write_text(text, encoding="utf-8")
            pip = [*pip_for(place), "install", "--quiet"]
            wanted = [*bounds(project()), *TEST_TOOLS, *TEST_TOOLS_TOO]
            run_logged([*pip, "-c", str(file), *wanted], what=key, log=log)
            stamp.touch()
    return place


def pip_for(place: Path) -> list[str]:
    """Return a pip that installs there: ours, because not every interpreter brings one."""
    python = str(place / "bin" / "python")
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]


def run_tests(place: Path, left_to_others: Sequence[str]) -> int:
    """Run the tests without servers on this source; return the worse exit code of pytest."""
    python = str(place / "bin" / "python")
    # The metadata of the package is asked for by tests; its dependencies are there already.
    pip = [*pip_for(place), "install", "--quiet", "--no-deps", "--editable", str(ROOT)]
    run_logged(pip, what="perago", log=build_log(f"{place.name}-perago"))
    command = [python, "-m", "pytest", "-q", "-p", "no:randomly", "-m", WITHOUT, *left_to_others]
    ended = [subprocess.run([*command, *run], cwd=ROOT, check=False).returncode for run in RUNS]
    return max(ended)


def main() -> int:
    """Install and test; the exit code is pytest's worse one."""
    text = constraints()
    print(text, flush=True)
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    # It is about a page that is rendered with the pinned typer.
    left_out = (*OTHER_ROWS, "--deselect=tests/unit/domain/test_error_codes.py")
    return run_tests(environment(f"lowest-{python}", text), left_out)


if __name__ == "__main__":
    sys.exit(main())
