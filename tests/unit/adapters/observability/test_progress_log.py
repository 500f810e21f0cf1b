"""One line of JSON for each phase."""

import json
import logging

import pytest

from perago.adapters.observability.progress import LOGGER, ProgressLog, progress_line
from perago.ports.workspace import Phase


def test_a_phase_is_one_line_of_json() -> None:
    line = progress_line(Phase.STAGED, {"branch": "b", "objects": 3, "bad": ValueError("x\ny")})
    assert "\n" not in line
    assert json.loads(line) == {"phase": "staged", "branch": "b", "objects": 3, "bad": "x\ny"}


@pytest.mark.parametrize("fact", [float("nan"), {(1, 2): 3}], ids=str)
def test_a_fact_that_json_cannot_carry_costs_no_line(fact: object) -> None:
    line = json.loads(progress_line(Phase.STAGED, {"fact": fact}), parse_constant=pytest.fail)
    assert line == {"phase": "staged", "fact": str(fact)}


def test_a_warning_has_the_level_of_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER.name):
        ProgressLog().phase(Phase.PUBLISHED, {})
        ProgressLog().phase(Phase.WARNED, {"what": "x"})
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING]
