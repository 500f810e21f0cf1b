"""A project directory and a way to run commands in it, inside this process."""

import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.command_line.command_run import TASK, Module, Ran, Run, Servers

from perago.adapters.memory import installations
from perago.adapters.memory.conductor_server import MemoryConductor
from perago.adapters.memory.system import VirtualClock, WorkerHandle
from perago.app.command_line.program import program
from perago.ports.errors import UnavailableError
from perago.ports.installations import ConductorInstallation


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """Return an empty project that is the current directory, importable, and configured."""
    for name in ("HOME", "PERAGO_CONDUCTOR", "PERAGO_LAKEFS", "CONDUCTOR_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PERAGO_WORKSPACE_ROOT", str(tmp_path / "workspaces"))
    monkeypatch.setenv("PERAGO_LOG_ROOT", str(tmp_path / "logs"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", [str(project), *sys.path])
    before = set(sys.modules)
    yield project
    for name in set(sys.modules) - before:
        origin = getattr(sys.modules[name], "__file__", None) or ""
        if origin.startswith(str(tmp_path)):
            del sys.modules[name]


class Away(WorkerHandle):
    """The way to a server that is not there."""

    async def perform(self, operation: str, effect: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Refuse every call."""
        del effect
        raise UnavailableError(f"{operation}: connection refused")


@pytest.fixture
def silent_conductor(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Conductor that is configured and does not answer."""
    away = installations.conductor_installation(MemoryConductor(VirtualClock()), Away())

    def shared_conductor(_: str) -> ConductorInstallation:
        return away

    monkeypatch.setattr(installations, "shared_conductor", shared_conductor)
    monkeypatch.setenv("PERAGO_CONDUCTOR", f"memory:{project}")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs one command line."""

    def run(*args: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            program().main(list(args), prog_name="perago")
        printed = capsys.readouterr()
        return Ran(int(ended.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def module(project: Path) -> Module:
    """Return a function that writes a task module and returns its name."""

    def module(target: str, *, name: str | None = None, keywords: str = "") -> str:
        workspace = "workspace: Path, " if "WorkspaceSpec" in keywords else ""
        text = TASK.format(
            name=name or target,
            keywords=f", {keywords}" if keywords else "",
            workspace=workspace,
        )
        (project / f"{target}.py").write_text(text)
        return target

    return module


@pytest.fixture
def servers(project: Path, monkeypatch: pytest.MonkeyPatch) -> Servers:
    """A lakeFS with one repository, its head, and a Conductor, both in memory."""
    url = f"memory:{project}"
    monkeypatch.setenv("PERAGO_LAKEFS", url)
    monkeypatch.setenv("PERAGO_CONDUCTOR", url)
    lakefs = installations.shared_memory(url)
    commit = installations.RepositoryBuilder(lakefs, "songs").commit({"a": b"a"})
    return commit, installations.shared_conductor(url)
