"""Where the browser of the browser tests comes from, and what is said when there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.browser import obstacle

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("apt_get", "user", "said"),
    [
        (None, 0, "there is no apt-get on this machine"),
        ("/usr/bin/apt-get", 1000, "only root may use apt-get"),
        ("/usr/bin/apt-get", 0, None),
    ],
)
def test_it_is_installed_only_by_root_with_apt_get(
    apt_get: str | None, user: int, said: str | None
) -> None:
    assert obstacle(apt_get, user) == said


def _run(programs: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.browser"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )


def _program(place: Path, text: str) -> None:
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)


def test_one_that_is_there_is_taken(tmp_path: Path) -> None:
    _program(tmp_path / "chromium", "exit 0")
    assert _run(tmp_path).stdout.strip() == str(tmp_path / "chromium")


def test_a_machine_without_any_fails_and_says_what_to_do(tmp_path: Path) -> None:
    _program(tmp_path / "apt-get", "echo 'E: no such package'; exit 100")
    ran = _run(tmp_path)
    assert ran.returncode == 1
    assert "apt-get update && apt-get install -y chromium" in ran.stderr
