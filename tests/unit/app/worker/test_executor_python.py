"""Which Python runs task code: what is refused, and what another one gets to import."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from perago.app.settings.settings import Settings, load_settings
from perago.app.worker import executor_process
from perago.app.worker.executor import ExecutorProgram
from perago.app.worker.executor_user import PYDANTIC_MIN, executor_python_of
from perago.domain.errors import RuntimeConfigError


def settings(tmp_path: Path, **variables: str) -> Settings:
    return load_settings(cwd=tmp_path, process_env=variables)


def python_that_says(tmp_path: Path, text: str) -> str:
    """A program that answers as an interpreter with other versions would."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho '{text}'\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_without_the_setting_it_is_the_python_of_the_worker(tmp_path: Path) -> None:
    assert executor_python_of(settings(tmp_path)) is None
    assert ExecutorProgram((), {}).command[:2] == [sys.executable, "-m"]


def test_a_python_with_pydantic_is_taken(tmp_path: Path) -> None:
    chosen = settings(tmp_path, PERAGO_EXECUTOR_PYTHON=sys.executable)
    assert executor_python_of(chosen) == sys.executable


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("3 10 2 12", "found Python 3.10 with pydantic 2.12"),
        ("3 11 2 11", "found Python 3.11 with pydantic 2.11"),
        ("3 12 1 10", "found Python 3.12 with pydantic 1.10"),
    ],
)
def test_a_python_that_is_too_old_is_refused(tmp_path: Path, answer: str, found: str) -> None:
    chosen = python_that_says(tmp_path, answer)
    with pytest.raises(RuntimeConfigError, match=found) as refused:
        executor_python_of(settings(tmp_path, PERAGO_EXECUTOR_PYTHON=chosen))
    assert refused.value.code == "PRG-C015"


def test_a_python_that_is_not_there_is_refused(tmp_path: Path) -> None:
    chosen = str(tmp_path / "nowhere")
    with pytest.raises(RuntimeConfigError, match="does not start"):
        executor_python_of(settings(tmp_path, PERAGO_EXECUTOR_PYTHON=chosen))


def test_in_thread_mode_it_would_change_nothing_and_is_refused(tmp_path: Path) -> None:
    chosen = {"PERAGO_EXECUTOR_PYTHON": sys.executable, "PERAGO_EXECUTION_MODE": "thread"}
    with pytest.raises(RuntimeConfigError, match="thread mode"):
        executor_python_of(settings(tmp_path, **chosen))


def test_the_bound_is_that_of_the_package() -> None:
    text = (Path(__file__).parents[4] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"pydantic>={".".join(map(str, PYDANTIC_MIN))}"' in text


def test_an_executor_imports_the_standard_library_and_pydantic_alone() -> None:
    """So that nothing else has to be installed in the other Python."""
    code = (
        "import sys\n"
        f"import {executor_process.__name__}\n"
        "tops = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*sorted(tops - set(sys.stdlib_module_names)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {"perago", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"}
    started_by_the_interpreter = {name for name in ran.stdout.split() if name.startswith("_")}
    assert set(ran.stdout.split()) - started_by_the_interpreter - ours <= {"annotated_types"}
