"""The page "Add a policy": its code is applied to a copy of the source, and does what it says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.documented_commands import page_lines
from tests.integration.document_blocks import Block, blocks_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/add-a-policy.md"
# The tables of all policies: none of them has to be changed for one more.
TABLES = ("test_policy.py", "test_promises.py", "test_publication_plan.py")
LISTED = """\
from tests.simulation.guarantees import guarantee_table

from perago.app.settings.settings import load_settings

print(guarantee_table().splitlines()[0])
print(load_settings().publication_policy)
"""


def _run(here: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PERAGO_")}
    paths = os.pathsep.join((str(here / "src"), str(here)))
    return subprocess.run(
        command,
        cwd=here,
        env={**clean, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def _git(here: Path, *arguments: str) -> str:
    done = _run(here, "git", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _pytest(here: Path, *files: str) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--import-mode=importlib")
    done = _run(here, sys.executable, "-m", "pytest", *options, *files)
    assert done.returncode == 0, done.stdout + done.stderr


def _of(blocks: list[Block], language: str) -> str:
    (found,) = (block.text for block in blocks if block.language == language)
    return found


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source with the page's policy; what the page changes is not in git's index."""
    here = tmp_path_factory.mktemp("exercise")
    leave = shutil.ignore_patterns("__pycache__")
    for folder in ("src/perago", "tests/unit/domain", "tests/simulation"):
        shutil.copytree(ROOT / folder, here / folder, ignore=leave)
    _git(here, "init", "-q")
    _git(here, "add", ".")
    blocks = list(blocks_of(PAGE))
    (here / "policy.diff").write_text(_of(blocks, "diff"))
    _git(here, "apply", "policy.diff")
    for block in blocks:
        if "file" in block.options:
            (here / block.options["file"]).write_text(block.text)
    return here


def test_the_policy_passes_its_table_and_those_of_all_policies(copy: Path) -> None:
    _pytest(copy, *(f"tests/unit/domain/{name}" for name in (*TABLES, "test_append_only.py")))


def test_the_kit_publishes_what_adds_and_refuses_what_deletes(copy: Path) -> None:
    _pytest(copy, "test_appending.py")


def test_the_pages_and_the_settings_know_it(copy: Path) -> None:
    done = _run(copy, sys.executable, "-c", LISTED, PERAGO_PUBLICATION_POLICY="append-only")
    columns, setting = done.stdout.splitlines()
    assert columns.endswith("| `settled` (needs the fence) | `append-only` (needs the fence) |")
    assert setting == "append-only"


def test_the_page_counts_the_files_and_lines_that_it_took(copy: Path) -> None:
    _git(copy, "add", "--intent-to-add", "src", "tests")
    counted = _git(copy, "diff", "--stat=80", "--", "src", "tests")
    assert counted in "".join(block.text for block in blocks_of(PAGE) if block.language == "text")
    files = [line.split("|")[0].strip() for line in counted.splitlines()[:-1]]
    assert [file.startswith("src/") for file in files] == [True, True, False]


def test_the_commands_of_the_page_write_the_policy_into_the_pages(
    copy: Path, tmp_path: Path
) -> None:
    """In a copy with the rest of what they read; the clone's own pages stay as they are."""
    lines = page_lines("docs/how-to/add-a-policy.md", ".venv/bin/python -m")
    leave = shutil.ignore_patterns("__pycache__", "pictures")
    whole = tmp_path / "whole"
    shutil.copytree(copy / "src", whole / "src", ignore=leave)
    for folder in ("tests", "tools", "docs", "examples", "src/perago_servers"):
        shutil.copytree(ROOT / folder, whole / folder, ignore=leave)
    (whole / ".venv").symlink_to(sys.prefix)
    for line in lines:
        done = _run(whole, "sh", "-c", line)
        assert done.returncode == 0, done.stderr
    for page in ("guarantees.md", "reference/configuration.md", "reference/task.md"):
        assert "append-only" in (whole / "docs" / page).read_text(encoding="utf-8")
