"""The README's example and demo print what it says; its commands, versions and links are right."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tests.documented_commands import check_line, page_lines, shell_lines

from perago import __version__
from perago_servers.versions import CONDUCTOR, LAKEFS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")
LINES_MAX = 30


def _block(language: str) -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_example_prints_what_stands_below_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = tmp_path / "example.py"
    example.write_text(_block("python"), encoding="utf-8")

    runpy.run_path(str(example), run_name="__main__")

    assert capsys.readouterr().out == _block("output")


def test_the_example_may_be_imported_and_then_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = tmp_path / "greet.py"
    example.write_text(_block("python"), encoding="utf-8")

    runpy.run_path(str(example), run_name="greet")

    assert capsys.readouterr().out == ""


def test_the_demo_prints_the_scene_that_is_shown(tmp_path: Path) -> None:
    """In an environment without Java, as it is after the two commands above the scene.

    `make demo` runs in this clone, whose environment is there: nothing is installed.
    """
    lines = page_lines("README.md", "perago demo", "make demo")
    lines += page_lines("CONTRIBUTING.md", "make demo")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    outside = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    for line in dict.fromkeys(lines):
        ran = subprocess.run(
            ["sh", "-c", line],  # noqa: S607 - the shell of the page
            cwd=ROOT,
            env={**outside, "PATH": programs, "JAVA_HOME": str(tmp_path / "nowhere")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert _block("text") in ran.stdout


@pytest.mark.parametrize("line", shell_lines(ROOT / "README.md"))
def test_a_command_of_the_readme_is_there(line: str) -> None:
    check_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "perago fence frob",
        "perago start --nope tasks",
        "perago nope",
        "perago fence instal REPO main",
        "make nothing",
        "pip install 'perago[nothing]'",
        "export PERAGO_NOTHING=1",
        "PERAGO_NOTHING=1 perago demo",
    ],
)
def test_a_command_that_is_not_there_would_be_seen(line: str) -> None:
    with pytest.raises(AssertionError):
        check_line(line)


def test_the_versions_are_those_that_the_gate_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for row in (
        f"| Perago | {__version__} |",
        f"| lakeFS | {LAKEFS}, ",
        f"| Conductor | {CONDUCTOR}",
    ):
        assert row in text


def test_the_example_stays_short() -> None:
    code = [line for line in _block("python").splitlines() if line.strip()]
    assert len(code) <= LINES_MAX


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_to_a_file_of_the_repository_leads_to_it(document: Path) -> None:
    links = LINK.findall(document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []
