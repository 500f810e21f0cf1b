"""The row of `make matrix` for the lower bounds installs all of them, and they are old."""

import tomllib
from pathlib import Path

import pytest
from packaging.version import Version
from tools.lowest_direct import bounds, constraints

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_direct_dependency_is_pinned_at_its_bound() -> None:
    pins = dict(line.split("==") for line in constraints().splitlines())
    listed = [*PROJECT["dependencies"]]
    for extra in ("openlineage", "otel", "testing"):
        listed += PROJECT["optional-dependencies"][extra]
    assert {requirement.partition(">=")[0] for requirement in listed} <= set(pins)
    assert pins["pydantic"] == "2.12"
    assert pins["typer"] == "0.20"


def test_no_bound_is_above_what_the_gate_installs() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pinned = {name.lower(): version for name, version in (line.split("==") for line in lines)}
    for name, bound in bounds(PROJECT).items():
        assert Version(bound) <= Version(pinned[name.lower()]), name


def test_a_dependency_without_a_bound_is_refused() -> None:
    extras: dict[str, list[str]] = {"openlineage": [], "otel": [], "testing": []}
    with pytest.raises(ValueError, match="expected a lower bound"):
        bounds({"dependencies": ["rich"], "optional-dependencies": extras})
