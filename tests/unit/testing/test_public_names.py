"""Every public name of the kit is there, and a test of the kit uses it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import perago.testing

ROOT = Path(__file__).parents[3]
TESTS = [
    *(ROOT / "tests/unit/testing").glob("test_*.py"),
    *(ROOT / "tests/integration").glob("*kit*.py"),
    *(ROOT / "tests/integration").glob("toxic_network.py"),
    ROOT / "tests/kit_cases.py",
    ROOT / "tests/prefixed_songs.py",
]
TEXT = "\n".join(
    path.read_text(encoding="utf-8") for path in TESTS if path != Path(__file__).resolve()
)


@pytest.mark.parametrize("name", perago.testing.__all__)
def test_a_public_name_is_there_and_a_test_uses_it(name: str) -> None:
    assert getattr(perago.testing, name) is not None
    assert re.search(rf"\b{name}\b", TEXT)


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        _ = perago.testing.Nonsense


def test_a_test_that_passes_pays_for_nothing_that_draws() -> None:
    code = "import sys, perago.testing.environment; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
