"""What is shipped: a pure wheel and its sdist, with what the source has, and a clean install.

Built and installed by pip as it is set up on this machine, without the clone on the path.
"""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from tests.documented_commands import page_lines

from perago import __version__
from perago_servers.cache import private_environment

ROOT = Path(__file__).parents[2]
BUILDER = "hatchling==1.33.0"
PACKAGES = ("perago", "perago_servers")
# Everything that is no Python. Whoever adds a file to the source sees here that it is shipped.
OTHER_FILES = {
    "perago/adapters/spark/java/PrivateBranchCommitProtocol.java",
    "perago/app/page/page.css",
    "perago/app/page/page.js",
    "perago/domain/error_codes.toml",
    "perago/py.typed",
}
INFORMATION = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
TOP_OF_SDIST = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "src"}
SECONDS_MAX = 300  # to install 26 packages


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the sdist of this source."""
    folder = tmp_path_factory.mktemp("dist")
    python = private_environment(BUILDER) / "bin" / "python"
    command = [str(python), "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def wheel_of(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as content:
        return set(content.namelist())


def test_the_wheel_is_pure(built: Path) -> None:
    assert wheel_of(built).name == f"perago-{__version__}-py3-none-any.whl"


def test_the_wheel_has_every_file_of_the_source_and_nothing_else(built: Path) -> None:
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for package in PACKAGES
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    information = {f"perago-{__version__}.dist-info/{name}" for name in INFORMATION}
    assert names_in(wheel_of(built)) == source | information
    assert {name for name in source if not name.endswith(".py")} == OTHER_FILES


def test_the_sdist_has_the_source_and_no_test_and_no_page(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as content:
        names = [name.partition("/")[2] for name in content.getnames()]
    assert {name.partition("/")[0] for name in names} <= TOP_OF_SDIST | {".gitignore"}
    assert {name.split("/")[1] for name in names if name.startswith("src/")} == set(PACKAGES)


@pytest.mark.timeout(SECONDS_MAX)
def test_a_clean_environment_runs_the_commands_of_the_readme(built: Path, tmp_path: Path) -> None:
    install, demo = page_lines("README.md", "pip install perago", "perago demo")
    extras = {
        *page_lines("README.md", "pip install 'perago[servers]'"),
        *page_lines("docs/how-to/first-workflow.md", "pip install"),
    }
    place = tmp_path / "clean"
    venv.create(place, with_pip=True)
    # pip finds this wheel beside those of its index, and takes no other version.
    own = tmp_path / "own.txt"
    own.write_text(f"perago=={__version__}\n", encoding="utf-8")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PERAGO_")},
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PIP_FIND_LINKS": str(built),
        "PIP_CONSTRAINT": f"{ROOT / 'constraints.txt'} {own}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }

    def typed(line: str, **more: str) -> str:
        ran = subprocess.run(
            ["bash", "-ec", line],  # noqa: S607 - the shell of the page
            cwd=tmp_path,
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    typed(install)
    assert typed("perago --version") == f"{__version__}\n"
    assert "4 of 4 scenes lost nothing" in typed(demo)
    assert "PRG-F002" in typed("perago explain PRG-F002")
    assert "lakefs:" in typed("perago servers status")
    typed("python -m pip check")
    assert sys.prefix not in typed("python -c 'import perago; print(perago.__file__)'")
    for line in extras:  # Go and Java are 250 MB: pip finds them, and stops before it installs
        assert "Would install" in typed(line, PIP_DRY_RUN="1")
