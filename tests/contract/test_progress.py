"""Laws of perago.ports.workspace."""

from collections.abc import Mapping
from typing import NoReturn

import pytest
from tests.contract.local_adapters import PROGRESS

from perago.ports.workspace import Phase, Progress


class Unprintable:
    """A value that cannot even say what it is."""

    def __str__(self) -> NoReturn:
        raise RuntimeError


def knot() -> list[object]:
    """A list that holds itself."""
    tied: list[object] = []
    tied.append(tied)
    return tied


FACTS: Mapping[str, Mapping[str, object]] = {
    "none": {},
    "plain": {"objects": 3, "prefix": "/"},
    "an exception": {"error": ValueError("bad")},
    "not a number": {"rate": float("nan")},
    "bytes": {"raw": b"\xff"},
    "lone surrogate": {"path": "\udcff"},
    "unprintable": {"value": Unprintable()},
    "self-reference": {"value": knot()},
}


@pytest.fixture(params=list(PROGRESS))
def progress(request: pytest.FixtureRequest) -> Progress:
    return PROGRESS[request.param]()


@pytest.mark.parametrize("facts", FACTS.values(), ids=FACTS)
def test_G1_never_raises(progress: Progress, facts: Mapping[str, object]) -> None:
    for phase in Phase:
        progress.phase(phase, facts)
