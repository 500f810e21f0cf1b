"""docs/testing.md as a new user follows it: every block in order, in an empty directory."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/testing.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS_MIN = 7


def test_the_tutorial_works_from_top_to_bottom(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= BLOCKS_MIN
    here = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "PYTHONPATH": "."}
    said: list[str] = []
    for language, text in blocks:
        if language == "python":
            name = text.split("\n", 1)[0].removeprefix("# ")
            (tmp_path / name).write_text(text)
            continue
        ran = subprocess.run(
            ["bash", "-ec", text],  # noqa: S607 - the shell of the page
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said.append(ran.stdout)
        assert ran.returncode == 0, text + ran.stdout + ran.stderr
    run, tests, dev = said[0], said[1], said[2]
    assert 'result: {"rows": 1}' in run
    assert "5 passed" in tests
    assert "the process dies after merge" in dev
