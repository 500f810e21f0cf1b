"""The package as an installer sees it: entry point, types, and no test tools at run time."""

from importlib.metadata import distribution, entry_points
from pathlib import Path

import pytest

import perago

DISTRIBUTION = distribution("perago")


def run_time_requirements() -> list[str]:
    return [each for each in DISTRIBUTION.requires or [] if "extra ==" not in each]


def test_the_console_script_is_the_command_line() -> None:
    (script,) = entry_points(group="console_scripts", name="perago")
    assert script.value == "perago.__main__:main"


def test_the_package_has_one_version_and_needs_python_3_11() -> None:
    assert DISTRIBUTION.version == perago.__version__
    assert DISTRIBUTION.metadata["Requires-Python"] == ">=3.11"


def test_the_package_is_typed() -> None:
    assert Path(perago.__file__).with_name("py.typed").is_file()


@pytest.mark.parametrize("tool", ["pytest", "hypothesis", "coverage", "loguru", "lupa"])
def test_no_test_tool_is_needed_at_run_time(tool: str) -> None:
    assert not [each for each in run_time_requirements() if each.lower().startswith(tool)]
