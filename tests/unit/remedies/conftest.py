"""A project, a way to run commands in it, and a shell that runs what remedies say."""

from pathlib import Path

import pytest
from tests.unit.app.command_line.command_run import Run
from tests.unit.app.command_line.conftest import project, run
from tests.unit.remedies.shell import Shell

__all__ = ["project", "run", "shell"]


@pytest.fixture
def shell(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return the shell of a person on the machine of a worker."""
    (project.parent / "home").mkdir()
    monkeypatch.setenv("HOME", str(project.parent / "home"))
    return Shell(project, run, monkeypatch)
