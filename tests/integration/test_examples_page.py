"""The commands of examples/README.md, typed in order into a copy of the examples."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_command_of_the_examples_page_works(tmp_path: Path) -> None:
    copy = tmp_path / "examples"
    shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = BLOCK.findall((EXAMPLES / "README.md").read_text(encoding="utf-8"))
    scripts = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-ec", "\n".join(blocks)],  # noqa: S607 - the shell of the page
        cwd=copy,
        env={"PATH": f"{scripts}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'result: {"dropped": 1, "kept": 2}' in done.stdout
    assert "ok: regions.sum\nok: regions.add\n" in done.stdout
    assert 'result: {"total": 33}' in done.stdout
    assert "workflow regions COMPLETED" in done.stdout
    assert 'result: {"rows": 1}' in done.stdout
    assert "check orders_are_sound failed: SchemaError" in done.stdout + done.stderr
    assert "\nrefused\n" in done.stdout


def test_every_example_is_on_the_page() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"__pycache__"}
    assert folders == set(re.findall(r"^## (\w+):", page, re.MULTILINE))
