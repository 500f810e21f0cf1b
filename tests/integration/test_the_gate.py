"""The gate refuses what it is there to refuse: every rule is broken on purpose, in a copy."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]
# A contract, the module planted into `perago`, and what it must not import there.
BREACHES = {
    "The hexagon points inwards": ("ports/planted.py", "perago.app.worker_description"),
    "Adapters do not know each other": (
        "adapters/workspace/planted.py",
        "perago.adapters.system",
    ),
    "The core knows no vendor": ("domain/planted.py", "pydantic"),
    "One module sends requests": ("adapters/lakefs/planted.py", "aiohttp"),
    "pyspark lives in one place": ("adapters/workspace/planted.py", "pyspark"),
    "opentelemetry lives in one place": ("app/planted.py", "opentelemetry"),
    "openlineage lives in one place": ("app/planted.py", "openlineage"),
    "Only the composition root injects": ("app/planted.py", "dependency_injector"),
    "Only the composition root names adapters": ("app/planted.py", "perago.adapters.system"),
    "No cycles": ("domain/errors.py", "perago.domain.error_codes"),
    "The domain is standard library without clocks, loops and chance": (
        "domain/planted.py",
        "time",
    ),
    "The steps of an attempt own no event loop": ("app/attempt/planted.py", "asyncio"),
}
Run = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.scale


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a tool of the gate on a copy of what it reads."""
    for folder in ("src", "tests", "tools"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}

    def tool(*command: str) -> subprocess.CompletedProcess[str]:
        place = Path(sys.executable).parent
        return subprocess.run(
            [str(place / command[0]), *command[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return tool


def plant(place: Path, line: str) -> None:
    with place.open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")


@pytest.mark.parametrize("name", BREACHES, ids=list(BREACHES))
def test_a_broken_contract_of_the_hexagon_fails(tmp_path: Path, run: Run, name: str) -> None:
    module, imported = BREACHES[name]
    plant(tmp_path / "src/perago" / module, f"import {imported}")
    linted = run("lint-imports", "--no-logo", "--no-cache")
    assert linted.returncode != 0
    assert re.search(rf"^{re.escape(name)} BROKEN", linted.stdout, re.MULTILINE), linted.stdout


def test_every_contract_is_broken_here() -> None:
    assert [contract["name"] for contract in CONTRACTS] == list(BREACHES)


def test_an_undeclared_dependency_fails(tmp_path: Path, run: Run) -> None:
    kept = run("deptry", "src")
    assert kept.returncode == 0, kept.stderr
    plant(tmp_path / "src/perago/app/planted.py", "import execnet")
    linted = run("deptry", "src")
    assert linted.returncode != 0
    assert "'execnet'" in linted.stderr


def test_a_law_without_its_test_fails(tmp_path: Path, run: Run) -> None:
    suite = tmp_path / "src/perago/testing/contract/branches.py"
    text = suite.read_text(encoding="utf-8")
    assert "def test_B1_" in text
    suite.write_text(text.replace("def test_B1_", "def not_any_more_"), encoding="utf-8")
    judged = run("python", "-m", "pytest", "-q", "tests/unit/test_laws.py")
    assert judged.returncode == 1, judged.stdout + judged.stderr
    assert "[Branches]" in judged.stdout
